// Searches over a million events on both engines, while an agent's words are being stored.

import type { FrameDraft } from '../src/protocol/frames.ts'
import type { ConversationId } from '../src/protocol/ids.ts'
import { newConversation, startRun, TENANT, userMessage } from '../test/support/frames.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { openPostgresStore, openSqliteStore, type TestStore } from '../test/support/stores.ts'
import { type Figure, median, milliseconds, report, say, times } from './support/figure.ts'
import { wordFrame } from './support/store.ts'

const EVENTS = Number(process.env.WAYMARK_SEARCH ?? 1_000_000)
const CONVERSATIONS = 50
const AT_ONCE = 1000
const ROUNDS = 40
const vocabulary = Array.from({ length: 20_000 }, (_, at) => `word${at.toString(36)}`)

const figures: Figure[] = []
const postgres = await startPostgres()
await measure('SQLite', await openSqliteStore())
await measure('Postgres', await openPostgresStore(postgres.url)())
await postgres.stop()
report(figures)

async function measure(engine: string, store: TestStore): Promise<void> {
  const ids = await fill(engine, store)
  const stop = new AbortController()
  const working = work(store, ids[0] as ConversationId, stop.signal)
  /** Words of about one text in 1, 50, 2,500 and 50,000, two words, the start of one, and one conversation. */
  const searches = ['the ', 'word7 ', 'wordgg ', 'needle ', 'the word7 ', 'wordg', 'nothing ']
  const taken: number[] = []
  const slowest = new Map<string, number>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const search of searches) {
      const only = round % 4 === 0 ? (ids[round % ids.length] as ConversationId) : null
      const began = performance.now()
      await store.ledger.search({ tenant: TENANT, search, conversationId: only, limit: 50 })
      const ms = performance.now() - began
      taken.push(ms)
      slowest.set(search, Math.max(slowest.get(search) ?? 0, ms))
    }
  }
  // The conversation list still looks for a text in every message.
  const scans: number[] = []
  for (let round = 0; round < 3; round++) {
    const began = performance.now()
    await store.ledger.conversations({ tenant: TENANT, search: 'needle', after: null, limit: 50 })
    scans.push(performance.now() - began)
  }
  stop.abort()
  await working
  await store.close()
  taken.sort((a, b) => a - b)
  const p95 = taken[Math.floor(taken.length * 0.95)] ?? Number.NaN
  const scan = median(scans)
  for (const [search, ms] of slowest) say(`${engine}: “${search}” at most ${milliseconds(ms)}`)
  say(`${engine}: p50 ${milliseconds(median(taken))}, p95 ${milliseconds(p95)}, scan ${milliseconds(scan)}`)
  figures.push({
    figure: `search over ${EVENTS.toLocaleString('en')} events on ${engine}, p95; peer: a scan of all messages`,
    ours: milliseconds(p95),
    peer: milliseconds(scan),
    ratio: times(p95 / scan),
    wanted: '≤ 50 ms',
    met: p95 <= 50,
  })
}

/** One event in five can be found: messages, calls, outputs, edits and answers. */
async function fill(engine: string, { ledger }: TestStore): Promise<ConversationId[]> {
  const ids: ConversationId[] = []
  for (let n = 0; n < CONVERSATIONS; n++) ids.push(await newConversation(ledger))
  let count = 0
  while (count < EVENTS) {
    for (const conversationId of ids) {
      const frames: FrameDraft[] = []
      for (let n = 0; n < AT_ONCE; n++, count++) frames.push(count % 5 === 0 ? found(count) : wordFrame())
      await ledger.append({ tenant: TENANT, conversationId, run: null, frames })
    }
    if (count % 250_000 < AT_ONCE * CONVERSATIONS) say(`${engine}: ${count.toLocaleString('en')} events`)
  }
  return ids
}

function found(n: number): FrameDraft {
  // Frequent words are much more frequent than rare ones, as in a language.
  const words = Array.from(
    { length: 40 },
    () => vocabulary[Math.floor(vocabulary.length * Math.random() ** 4)],
  )
  const text = `the ${words.join(' ')}${n % 250_000 === 0 ? ' needle' : ''}`
  if (n % 2 === 0) return userMessage(text)
  return {
    kind: 'file.edit',
    path: `src/${n % 100}.ts`,
    diff: text,
    additions: 1,
    deletions: 1,
    change: 'modified',
  }
}

/** Stores words like an agent that is answering. */
async function work(
  { ledger }: TestStore,
  conversationId: ConversationId,
  signal: AbortSignal,
): Promise<void> {
  const run = await startRun(ledger, conversationId)
  while (!signal.aborted) {
    await ledger.append({ tenant: TENANT, conversationId, run, frames: [wordFrame()] })
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
