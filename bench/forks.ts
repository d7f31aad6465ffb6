// Forking a long conversation against a short one, and the last page of a line 200 forks deep against an unforked one.
import type { Ledger } from '../src/core/ledger.ts'
import type { Cursor } from '../src/protocol/cursor.ts'
import type { ConversationId } from '../src/protocol/ids.ts'
import { forkOf, newConversation, startRun, TENANT } from '../test/support/frames.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { withLedger, wordFrame } from './support/store.ts'

const LONG = 100_000
const SHORT = 100
const DEPTH = 200
const PAGE = 500
const ROUNDS = 200

await withLedger(async (ledger) => {
  say(`storing ${LONG.toLocaleString('en')} frames …`)
  const long = await filled(ledger, LONG)
  const short = await filled(ledger, SHORT)
  const forks = { long: [] as number[], short: [] as number[] }
  for (let round = 0; round < ROUNDS; round++) {
    forks.short.push(await timed(() => forkOf(ledger, short, null)))
    forks.long.push(await timed(() => forkOf(ledger, long, null)))
  }
  say(`creating a line ${DEPTH} forks deep …`)
  const flat = await filled(ledger, DEPTH * 6)
  let deep = await filled(ledger, 1)
  let deeper = await filled(ledger, DEPTH * 6)
  for (let depth = 0; depth < DEPTH; depth++) {
    deep = await forkOf(ledger, deep, null)
    await fill(ledger, deep, 4)
    deeper = await forkOf(ledger, deeper, null)
  }
  await fill(ledger, deeper, PAGE)
  const pages = { flat: [] as number[], deep: [] as number[], deeper: [] as number[] }
  for (let round = 0; round < ROUNDS; round++) {
    pages.flat.push(await lastPage(ledger, flat))
    pages.deep.push(await lastPage(ledger, deep))
    pages.deeper.push(await lastPage(ledger, deeper))
  }
  const [longFork, shortFork] = [median(forks.long), median(forks.short)]
  const [flatPage, deepPage, deeperPage] = [median(pages.flat), median(pages.deep), median(pages.deeper)]
  report([
    {
      figure: `fork of a conversation of ${LONG.toLocaleString('en')} events; peer: of ${SHORT} events`,
      ours: milliseconds(longFork),
      peer: milliseconds(shortFork),
      ratio: times(longFork / shortFork),
      wanted: 'at most 1.5×',
      met: longFork <= shortFork * 1.5,
    },
    {
      figure: `last page (${PAGE} events) of a line ${DEPTH} forks deep, 5 events each; peer: of one without forks`,
      ours: milliseconds(deepPage),
      peer: milliseconds(flatPage),
      ratio: times(deepPage / flatPage),
      wanted: 'at most 2×',
      met: deepPage <= flatPage * 2,
    },
    {
      figure: `last page of a line ${DEPTH} forks deep, all in the last fork; peer: of one without forks`,
      ours: milliseconds(deeperPage),
      peer: milliseconds(flatPage),
      ratio: times(deeperPage / flatPage),
      wanted: 'at most 2×',
      met: deeperPage <= flatPage * 2,
    },
  ])
})

async function filled(ledger: Ledger, frames: number): Promise<ConversationId> {
  const id = await newConversation(ledger)
  await fill(ledger, id, frames)
  return id
}

async function fill(ledger: Ledger, conversationId: ConversationId, frames: number): Promise<void> {
  const run = await startRun(ledger, conversationId)
  for (let sent = 0; sent < frames; sent += 1000) {
    const lot = Array.from({ length: Math.min(1000, frames - sent) }, () => wordFrame())
    await ledger.append({ tenant: TENANT, conversationId, run, frames: lot })
  }
}

async function lastPage(ledger: Ledger, conversationId: ConversationId): Promise<number> {
  const line = await ledger.line(TENANT, conversationId)
  const after = (line.at(-1)?.to ?? 0) - PAGE
  const part = line.find((one) => one.from <= after && after <= one.to)
  const cursor: Cursor | null = part ? { segmentId: part.segmentId, seq: after } : null
  return await timed(async () => {
    const page = await ledger.page({ tenant: TENANT, conversationId, cursor, limit: PAGE })
    if (page.frames.length !== PAGE || !page.atEnd) throw new Error('not the last page')
  })
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}
