// 64 writers at once, each waiting for its frame to be durable before it makes the next.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { newConversation, TENANT } from '../test/support/frames.ts'
import { median, perSecond, report, say, times } from './support/figure.ts'
import { temporaryFolder, withLedger, wordFrame } from './support/store.ts'

const WRITERS = 64
const FRAMES_EACH = 100
const ROUNDS = 9
const FRAME_BYTES = 300

async function ours(): Promise<number> {
  return await withLedger(async (ledger) => {
    // Other conversations first, so that what is measured has been compiled.
    await writeAll(100)
    return await writeAll(FRAMES_EACH)

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

/** The simple ledger: one transaction a frame. Its writers take turns, since each commit blocks the process. */
async function simple(): Promise<number> {
  const { folder, remove } = await temporaryFolder()
  const database = new Database(join(folder, 'simple.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('create table events (stream integer, seq integer, frame text, unique (stream, seq))')
  const insert = database.prepare('insert into events values (?, ?, ?)')
  const frame = 'x'.repeat(FRAME_BYTES)
  const result = await rate(WRITERS * FRAMES_EACH, async () => {
    for (let seq = 0; seq < FRAMES_EACH; seq++) {
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
  // Its writers take turns too: calls at once close the connection under each other.
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
    say('installing the peer (it compiles SQLite: about two minutes, once) …')
    const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    if (status !== 0) throw new Error('the peer could not be installed')
  }
  return join(folder, 'node_modules', path)
}

async function rate(count: number, work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return count / ((performance.now() - started) / 1000)
}

const ourRates: number[] = []
const simpleRates: number[] = []
for (let round = 1; round <= ROUNDS; round++) {
  simpleRates.push(await simple())
  ourRates.push(await ours())
  say(`round ${round}: ${perSecond(ourRates.at(-1) ?? 0)} against ${perSecond(simpleRates.at(-1) ?? 0)}`)
}
const own = median(ourRates)
const plain = median(simpleRates)
const ratio = median(ourRates.map((rateOfRound, round) => rateOfRound / (simpleRates[round] ?? Number.NaN)))
const peer = await emmett().catch((error: unknown) => {
  say(`emmett could not be measured: ${(error as Error).message}`)
  return null
})
report([
  {
    figure: 'durable appends, 64 writers, each waiting for its frame; peer: one transaction a frame',
    ours: perSecond(own),
    peer: perSecond(plain),
    ratio: times(ratio),
    wanted: 'at least 8×',
    met: ratio >= 8,
  },
  {
    figure: 'the same; peer: emmett-sqlite `appendToStream`',
    ours: perSecond(own),
    peer: peer === null ? 'not measured' : perSecond(peer),
    ratio: peer === null ? '–' : times(own / peer),
    wanted: '–',
    met: null,
  },
])
process.exit(0)
