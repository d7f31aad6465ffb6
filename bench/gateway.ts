// Delay of the first byte of a model's answer through the gateway, recorded as for a hosted agent and for one in its own terminal.
// Peer: the same requests to the model server itself. The model server answers at once, so that the delay is all that is seen.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServerProcess } from '../test/support/server-process.ts'
import { median, milliseconds, report, say } from './support/figure.ts'
import { startModelProcess } from './support/start-model-process.ts'

const REQUESTS = 300
const WARM_UP = 50
const PAUSE_MS = 100
/** Agents send tens of kilobytes with each request. */
const INSTRUCTIONS = 'word '.repeat(8000)

const project = mkdtempSync(join(tmpdir(), 'waymark-gateway-bench-'))
const model = await startModelProcess()
const server = await startServerProcess(project)
const key = randomBytes(32).toString('base64url')
await server.client.keepTerminal('bench-terminal', { key, agent: 'bench', upstreams: { openai: model.url } })
const keepAlive = new Agent({ keepAlive: true })

const direct: number[] = []
const through: number[] = []
for (let round = -WARM_UP; round < REQUESTS; round++) {
  const session = `session-${Math.floor(round / 10)}`
  // An agent works between two requests; what is recorded of the last one is stored meanwhile.
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  const peer = await firstByte(`${model.url}/responses`, session, round)
  const ours = await firstByte(`${server.url}/gateway/${key}/openai/v1/responses`, session, round)
  if (round < 0) continue
  direct.push(peer)
  through.push(ours)
}
await server.client.endTerminal('bench-terminal')
const { items } = await server.client.listConversations({ limit: 100 })
say(`${items.length} conversations recorded`)
await server.kill()
await model.stop()
keepAlive.destroy()
rmSync(project, { recursive: true, force: true })

const added = through.map((one, index) => one - (direct[index] ?? 0))
const delay = median(through) - median(direct)
const p99 = percentile(through, 99) - percentile(direct, 99)
say(
  `p50 ${milliseconds(delay)}, p99 ${milliseconds(p99)}, p99 of the differences ${milliseconds(percentile(added, 99))}`,
)
report([
  {
    figure: 'first byte of an answer through the gateway, recorded, p50; peer: without the gateway',
    ours: milliseconds(median(through)),
    peer: milliseconds(median(direct)),
    ratio: `+${milliseconds(delay)}`,
    wanted: 'at most 3 ms more',
    met: delay <= 3,
  },
  {
    figure: 'first byte of an answer through the gateway, recorded, p99; peer: without the gateway',
    ours: milliseconds(percentile(through, 99)),
    peer: milliseconds(percentile(direct, 99)),
    ratio: `+${milliseconds(p99)}`,
    wanted: 'at most 10 ms more',
    met: p99 <= 10,
  },
])

function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor((sorted.length * percent) / 100)] ?? Number.NaN
}

async function firstByte(url: string, session: string, round: number): Promise<number> {
  const body = JSON.stringify({
    model: 'demo',
    instructions: INSTRUCTIONS,
    input: [{ role: 'user', content: `!say "answer ${round}"` }],
    tools: [{ type: 'function', name: 'shell', parameters: {} }],
    stream: true,
  })
  const started = performance.now()
  return await new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'session-id': session }
    const sent = request(url, { method: 'POST', agent: keepAlive, headers }, (response) => {
      let first: number | null = null
      response.on('data', () => (first ??= performance.now() - started))
      response.on('end', () => resolve(first ?? Number.NaN))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
