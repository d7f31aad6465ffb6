// Delay from a hosted agent's update to a client of the server, and a fork with its own files. Peer of the update: the same
// agent, read by the protocol's SDK alone.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { client as createEditor, methods, ndJsonStream, PROTOCOL_VERSION } from '@agentclientprotocol/sdk'
import { testAgent } from '../test/support/hosted-agents.ts'
import { startServerProcess } from '../test/support/server-process.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'

const UPDATES = 300
/** Both sides take turns, because a machine's speed changes within minutes. */
const TURNS = 5
const FILES = 10_000
const FORKS = 5

const project = mkdtempSync(join(tmpdir(), 'waymark-hosted-bench-'))
const sessions = mkdtempSync(join(tmpdir(), 'waymark-hosted-sessions-'))
for (let index = 0; index < FILES; index++) {
  const folder = join(project, `folder-${index % 100}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `file-${index}.txt`), `text ${index}\n`)
}
const { agents } = testAgent(sessions)
const server = await startServerProcess(project, { config: { agents } })

const peer: number[] = []
const ours: number[] = []
for (let turn = 0; turn < TURNS; turn++) {
  peer.push(...(await alone()))
  ours.push(...(await hosted()))
}
const restoreMs = await forks('restore')
const copyMs = await forks('copy')
await server.kill()
for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
const overhead = median(ours) - median(peer)
say(
  `update: ${milliseconds(median(ours))}, SDK alone ${milliseconds(median(peer))}; fork with restore ${milliseconds(restoreMs)}, with a copy ${milliseconds(copyMs)}`,
)

report([
  {
    figure: "a hosted agent's update → stored and at a client, p50; peer: the agent read with the SDK alone",
    ours: milliseconds(median(ours)),
    peer: milliseconds(median(peer)),
    ratio: `+${milliseconds(overhead)}`,
    wanted: 'at most 2 ms more',
    met: overhead <= 2,
  },
  {
    figure: `fork that restores the files, 10 of ${FILES.toLocaleString('en')} changed, median; peer: with its own copy of all files`,
    ours: milliseconds(restoreMs),
    peer: milliseconds(copyMs),
    ratio: times(copyMs / restoreMs),
    wanted: 'at most 100 ms',
    met: restoreMs <= 100,
  },
])

function delaysIn(text: string): number[] {
  const now = performance.timeOrigin + performance.now()
  return [...text.matchAll(/@([\d.]+)@/g)].map(([, stamp]) => now - Number(stamp))
}

async function hosted(): Promise<number[]> {
  const { id } = await server.client.createConversation({ agent: 'test' })
  const delays: number[] = []
  const { run_id } = await server.client.sendMessage(id, { content: `!stamps ${UPDATES}` })
  for await (const items of server.client.stream(id)) {
    for (const item of items) {
      if (item.type !== 'frame' || item.frame.stream_id !== run_id) continue
      if (item.frame.kind === 'message.delta') delays.push(...delaysIn(item.text))
      if (item.frame.kind === 'final') return delays
    }
  }
  return delays
}

async function alone(): Promise<number[]> {
  const { command = '', args = [], env = {} } = agents.test ?? {}
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
  const delays: number[] = []
  const input = Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>
  const { agent } = createEditor({ name: 'bench' })
    .onNotification(
      methods.client.session.update,
      ({ params }) => void delays.push(...delaysIn(JSON.stringify(params))),
    )
    .connect(ndJsonStream(Writable.toWeb(child.stdin), input))
  await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} })
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd: project, mcpServers: [] })
  const prompt = [{ type: 'text' as const, text: `!stamps ${UPDATES}` }]
  await agent.request(methods.agent.session.prompt, { sessionId, prompt })
  child.kill()
  return delays
}

async function forks(files: 'restore' | 'copy'): Promise<number> {
  const { id } = await server.client.createConversation({ agent: 'test' })
  await server.client.sendMessage(id, { content: '!say ready' })
  await untilAnswered(id)
  const taken: number[] = []
  for (let index = 0; index < FORKS; index++) {
    for (let n = 0; n < 10; n++)
      writeFileSync(join(project, `folder-${n}`, `file-${n}.txt`), `changed ${index}\n`)
    const started = performance.now()
    await server.client.fork(id, { files })
    taken.push(performance.now() - started)
  }
  return median(taken)
}

async function untilAnswered(id: string): Promise<void> {
  for await (const items of server.client.stream(id)) {
    if (items.some((item) => item.type === 'frame' && item.frame.kind === 'final')) return
  }
}
