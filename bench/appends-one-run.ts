// The way a run makes frames: one append a word, in the order they come, without waiting for each.
import type { RunHold } from '../src/core/ledger.ts'
import type { ConversationId } from '../src/protocol/ids.ts'
import { newConversation, startRun, TENANT } from '../test/support/frames.ts'
import { median, perSecond, report, say, times } from './support/figure.ts'
import { withLedger, wordFrame } from './support/store.ts'

const FRAMES = 60_000
const ROUNDS = 5
/** What a socket hands over at once, and the most that a run leaves unstored before it waits. */
const AT_ONCE = 32
const MOST_UNSTORED = 4096

const rates: number[] = []
const waitingRates: number[] = []
await withLedger(async (ledger) => {
  const conversationId = await newConversation(ledger)
  const run = await startRun(ledger, conversationId)
  await stream(conversationId, run, FRAMES / 4)
  for (let round = 1; round <= ROUNDS; round++) {
    const started = performance.now()
    await stream(conversationId, run, FRAMES)
    rates.push(FRAMES / ((performance.now() - started) / 1000))
    const waiting = performance.now()
    for (let index = 0; index < 1000; index++) {
      await ledger.append({ tenant: TENANT, conversationId, run, frames: [wordFrame()] })
    }
    waitingRates.push(1000 / ((performance.now() - waiting) / 1000))
    say(`round ${round}: ${perSecond(rates.at(-1) ?? 0)}`)
  }

  async function stream(id: ConversationId, hold: RunHold, count: number): Promise<void> {
    let unstored: Promise<unknown>[] = []
    for (let index = 0; index < count; index++) {
      unstored.push(ledger.append({ tenant: TENANT, conversationId: id, run: hold, frames: [wordFrame()] }))
      if (index % AT_ONCE === AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve))
      if (unstored.length >= MOST_UNSTORED) {
        await Promise.all(unstored)
        unstored = []
      }
    }
    await Promise.all(unstored)
  }
})

const own = median(rates)
const waiting = median(waitingRates)
report([
  {
    figure: 'durable appends by one run; peer: the same, waiting for each frame',
    ours: perSecond(own),
    peer: perSecond(waiting),
    ratio: times(own / waiting),
    wanted: 'at least 40,000/s',
    met: own >= 40_000,
  },
])
