// 200 active runs in one process: its memory, and how fast a stop ends another run.
import { createClient } from '../src/client/index.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { startBenchServer } from './support/start-bench-server.ts'

const CONVERSATIONS = 200
const MB = 1024 * 1024
const LIMIT_MB = 512

const server = await startBenchServer()
const client = createClient({ url: server.url, token: server.token })
const idle = await memory()
const ids: string[] = []
for (let index = 0; index < CONVERSATIONS; index++) ids.push((await client.createConversation()).id)
// A tool call, then words at about the speed of a model.
const content = '!write_to_file {"path":"a.txt","content":"hi"}\n!wait 20\n!say 400'
await Promise.all(ids.map((id) => client.sendMessage(id, { content })))
await until(async () => (await activeRuns()) >= CONVERSATIONS * 0.95)
say('all runs are active')
const stops = await stopsAmongThem()
await until(async () => (await activeRuns()) === 0)
const peak = (await memory()).peak
say(`at most ${Math.round(peak / MB)} MB, ${Math.round(idle.now / MB)} MB before`)
await server.stop()

report([
  {
    figure: `memory of one process with ${CONVERSATIONS} active runs; peer: the same process when idle`,
    ours: `${Math.round(peak / MB)} MB`,
    peer: `${Math.round(idle.now / MB)} MB`,
    ratio: times(peak / idle.now),
    wanted: `under ${LIMIT_MB} MB`,
    met: peak < LIMIT_MB * MB,
  },
  {
    figure: 'stop → run ended as cancelled, during a command, with the others active; peer: an empty request',
    ours: milliseconds(median(stops.stop)),
    peer: milliseconds(median(stops.request)),
    ratio: times(median(stops.stop) / median(stops.request)),
    wanted: 'under 200 ms',
    met: Math.max(...stops.stop) < 200,
  },
])

async function stopsAmongThem(): Promise<{ stop: number[]; request: number[] }> {
  const figures = { stop: [] as number[], request: [] as number[] }
  for (let round = 0; round < 5; round++) {
    const { id } = await client.createConversation()
    const taken = await server.ask<number>({ type: 'stop', conversationId: id })
    const started = performance.now()
    await client.queue(id)
    figures.request.push(performance.now() - started)
    figures.stop.push(taken)
    say(`stopped in ${milliseconds(taken)}`)
  }
  return figures
}

async function activeRuns(): Promise<number> {
  return await server.ask<number>({ type: 'active' })
}

async function memory(): Promise<{ peak: number; now: number }> {
  return await server.ask({ type: 'memory' })
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 100))
}
