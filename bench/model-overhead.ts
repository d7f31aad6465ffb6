// A long answer of the demo model at full speed, from the message to the last durable frame, against the SDK alone.
import OpenAI from 'openai'
import { createClient } from '../src/client/index.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { startBenchServer } from './support/start-bench-server.ts'
import { startModelProcess } from './support/start-model-process.ts'

const WORDS = 10_000
const ROUNDS = 21
/** Not counted: in the first rounds, both sides are still being compiled. */
const WARM_UP = 5
const content = `!say ${WORDS}`

const model = await startModelProcess()
const server = await startBenchServer({ baseUrl: model.url })
const client = createClient({ url: server.url, token: server.token })
const sdk = new OpenAI({ baseURL: model.url, apiKey: 'none' })

const own: number[] = []
const alone: number[] = []
for (let round = 1 - WARM_UP; round <= ROUNDS; round++) {
  // A new conversation per round, so that both sides send the same request to the model.
  const { id } = await client.createConversation()
  const ours = await untilFinal(id)
  const theirs = await consume()
  if (round <= 0) continue
  own.push(ours)
  alone.push(theirs)
  say(`round ${round}: ${milliseconds(ours)} against ${milliseconds(theirs)}`)
}
await server.stop()
await model.stop()

report([
  {
    figure: `an answer of ${WORDS.toLocaleString('en')} words at full speed, every frame durable; peer: the same stream read with the openai SDK alone`,
    ours: milliseconds(median(own)),
    peer: milliseconds(median(alone)),
    ratio: times(median(own) / median(alone)),
    wanted: 'at most 2×',
    met: median(own) <= 2 * median(alone),
  },
])

/** Measured in the server, from accepting the message to the durable terminal frame. */
async function untilFinal(id: string): Promise<number> {
  return await server.ask<number>({ type: 'run', conversationId: id, content })
}

async function consume(): Promise<number> {
  const started = performance.now()
  let words = 0
  const stream = await sdk.responses.create({
    model: 'demo',
    input: [{ role: 'user', content }],
    stream: true,
  })
  for await (const event of stream) if (event.type === 'response.output_text.delta') words++
  if (words !== WORDS) throw new Error('words are missing')
  return performance.now() - started
}
