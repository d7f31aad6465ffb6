// Words as a run stores them: through its writer, which keeps one append in flight and joins words that arrive meanwhile.
import type { RunHold } from '../src/core/ledger.ts'
import { createRunRecord } from '../src/core/run-record.ts'
import type { ConversationId } from '../src/protocol/ids.ts'
import { createRunWriter } from '../src/workers/run-writer.ts'
import { newConversation, startRun, TENANT } from '../test/support/frames.ts'
import { median, perSecond, report, say, times } from './support/figure.ts'
import { withLedger, wordFrame } from './support/store.ts'

const WORDS = 60_000
const ROUNDS = 5
/** How many words arrive per socket read. */
const AT_ONCE = 32

const rates: number[] = []
const waitingRates: number[] = []
await withLedger(async (ledger) => {
  await stream(await newRun(), WORDS / 4)
  for (let round = 1; round <= ROUNDS; round++) {
    const run = await newRun()
    const started = performance.now()
    await stream(run, WORDS)
    rates.push(WORDS / ((performance.now() - started) / 1000))
    const { conversationId, hold } = await newRun()
    const waiting = performance.now()
    for (let index = 0; index < 1000; index++) {
      await ledger.append({ tenant: TENANT, conversationId, run: hold, frames: [wordFrame()] })
    }
    waitingRates.push(1000 / ((performance.now() - waiting) / 1000))
    say(`round ${round}: ${perSecond(rates.at(-1) ?? 0)}`)
  }

  async function newRun(): Promise<{ conversationId: ConversationId; hold: RunHold }> {
    const conversationId = await newConversation(ledger)
    return { conversationId, hold: await startRun(ledger, conversationId) }
  }

  async function stream(
    { conversationId, hold }: { conversationId: ConversationId; hold: RunHold },
    count: number,
  ): Promise<void> {
    const onFailure = (error: Error) => {
      throw error
    }
    const record = createRunRecord()
    const writer = createRunWriter({ ledger, tenant: TENANT, conversationId, hold, record, onFailure })
    for (let index = 0; index < count; index++) {
      writer.write(wordFrame())
      if (index % AT_ONCE === AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve))
      await writer.room()
    }
    await writer.flush()
  }
})

const own = median(rates)
const waiting = median(waitingRates)
report([
  {
    figure: 'durable words of one run, through its writer; peer: waiting for each word',
    ours: perSecond(own),
    peer: perSecond(waiting),
    ratio: times(own / waiting),
    wanted: 'at least 40,000/s',
    met: own >= 40_000,
  },
])
