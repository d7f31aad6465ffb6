// 64 concurrent writers, each waiting until its frame is durable before it appends the next.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { newConversation, TENANT } from '../test/support/frames.ts'
import { median, perSecond, report, say, times } from './support/figure.ts'
import { temporaryFolder, withLedger, wordFrame } from './support/store.ts'

const WRITERS = 64
const FRAME_BYTES = 300

async function ours(framesEach: number): Promise<number> {
  return await withLedger(async (ledger) => {
    // Warm up on other conversations, so that the measured code has been compiled.
    await writeAll(100)
    return await writeAll(framesEach)

    async function writeAll(each: number): Promise<number> {
      const ids = await Promise.all(Array.from({ length: WRITERS }, () => newConversation(ledger)))
      return await rate(WRITERS * each, () =>
        Promise.all(
          ids.map(async (conversationId) => {
            for (let index = 0; index < each; index++) {
              await ledger.append({ tenant: TENANT, conversationId, run: null, frames: [wordFrame()] })
            }
          }),
        ),
      )
    }
  })
}

/** A simple ledger with one transaction per frame. Its writers take turns, because each commit blocks the process. */
async function simple(framesEach: number): Promise<number> {
  const { folder, remove } = await temporaryFolder()
  const database = new Database(join(folder, 'simple.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('create table events (stream integer, seq integer, frame text, unique (stream, seq))')
  const insert = database.prepare('insert into events values (?, ?, ?)')
  const frame = 'x'.repeat(FRAME_BYTES)
  const result = await rate(WRITERS * framesEach, async () => {
    for (let seq = 0; seq < framesEach; seq++) {
      for (let stream = 0; stream < WRITERS; stream++) insert.run(stream, seq, frame)
    }
  })
  database.close()
  await remove()
  return result
}

interface EmmettStore {
  appendToStream(name: string, events: { type: string; data: object }[]): Promise<unknown>
}

async function emmett(): Promise<number> {
  const { getSQLiteEventStore } = (await import(
    installedPeer('@event-driven-io/emmett-sqlite/dist/index.js')
  )) as {
    getSQLiteEventStore: (options: object) => EmmettStore
  }
  const { folder, remove } = await temporaryFolder()
  const store = getSQLiteEventStore({
    fileName: join(folder, 'emmett.db'),
    schema: { autoMigration: 'CreateOrUpdate' },
  })
  const data = { text: 'x'.repeat(FRAME_BYTES - 20) }
  await store.appendToStream('warm-up', [{ type: 'word', data }])
  // Its writers also take turns: concurrent calls close each other's connection.
  const each = 5
  const result = await rate(WRITERS * each, async () => {
    for (let index = 0; index < each; index++) {
      for (let writer = 0; writer < WRITERS; writer++) {
        await store.appendToStream(`stream-${writer}`, [{ type: 'word', data }])
      }
    }
  })
  await remove()
  return result
}

function installedPeer(path: string): string {
  const folder = fileURLToPath(new URL('./peers', import.meta.url))
  if (!existsSync(join(folder, 'node_modules'))) {
    say('installing the peer (compiles SQLite; takes about two minutes, once) …')
    const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    if (status !== 0) throw new Error('could not install the peer')
  }
  return join(folder, 'node_modules', path)
}

async function rate(count: number, work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return count / ((performance.now() - started) / 1000)
}

/** Alternates both sides with the same frames; the ratio is the median over the rounds. */
async function compare(framesEach: number, rounds: number) {
  const own: number[] = []
  const plain: number[] = []
  for (let round = 1; round <= rounds; round++) {
    plain.push(await simple(framesEach))
    own.push(await ours(framesEach))
    say(
      `${framesEach} frames each, round ${round}: ${perSecond(own.at(-1) ?? 0)} against ${perSecond(plain.at(-1) ?? 0)}`,
    )
  }
  const ratio = median(own.map((rateOfRound, round) => rateOfRound / (plain[round] ?? Number.NaN)))
  return { own: median(own), plain: median(plain), ratio }
}

const short = await compare(100, 9)
// In long conversations, each has its own index pages, so a group of 64 frames dirties 64 pages.
const long = await compare(600, 3)
const peer = await emmett().catch((error: unknown) => {
  say(`emmett could not be measured: ${(error as Error).message}`)
  return null
})
report([
  {
    figure:
      'durable appends, 64 writers, each waiting for its frame, 100 frames each; peer: one transaction per frame',
    ours: perSecond(short.own),
    peer: perSecond(short.plain),
    ratio: times(short.ratio),
    wanted: 'at least 8×',
    met: short.ratio >= 8,
  },
  {
    figure: 'durable appends, 64 writers, 600 frames each; peer: one transaction per frame',
    ours: perSecond(long.own),
    peer: perSecond(long.plain),
    ratio: times(long.ratio),
    wanted: 'at least 8×',
    met: long.ratio >= 8,
  },
  {
    figure: 'durable appends, 64 writers, 100 frames each; peer: emmett-sqlite `appendToStream`',
    ours: perSecond(short.own),
    peer: peer === null ? 'not measured' : perSecond(peer),
    ratio: peer === null ? '–' : times(short.own / peer),
    wanted: '–',
    met: null,
  },
])
process.exit(0)
