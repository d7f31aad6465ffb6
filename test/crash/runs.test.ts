import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, it } from 'vitest'
import type { Client } from '../../src/client/index.ts'
import type { Config } from '../../src/config.ts'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import { newId } from '../../src/protocol/ids.ts'
import type { Transcript } from '../../src/replay/transcript.ts'
import { freePort } from '../support/free-port.ts'
import { framesOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { commandEnv } from '../support/state.ts'
import { onPostgres } from '../support/stores.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const run = promisify(execFile)

const CONVERSATIONS = 3
const name = `test_${randomBytes(6).toString('hex')}`
const tools = { run_command: 'allow' as const }

/** The next server resumes runs at once on SQLite, and after the lease expires on Postgres. */
const engines: { engine: string; kills: number; config: Partial<Config> }[] = [
  { engine: 'SQLite', kills: rounds(4, 100), config: { tools } },
  {
    engine: 'Postgres',
    kills: rounds(2, 25),
    config: {
      tools,
      databaseUrl: `${inject('postgresUrl')}/${name}`,
      leaseSeconds: 1,
      workspaceId: 'Crash.Test',
    },
  },
]

let project: string
let server: ServerProcess
beforeAll(() => onPostgres(inject('postgresUrl'), `create database ${name}`))
afterAll(() => onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`))
beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), 'waymark-crash-'))
})
afterEach(async () => {
  await server.kill()
  await rm(project, { recursive: true, force: true })
})

/** A message that makes the agent call several tools with countable effects. */
function messageOf(number: number): string {
  return [
    `message ${number}`,
    `!run_command {"command":"echo a${number} >> effects.log"}`,
    `!read_file {"path":"effects.log"}`,
    `!run_command {"command":"echo b${number} >> effects.log; sleep 0.${number % 4}"}`,
    `!write_to_file {"path":"files/${number}.txt","content":"${number}"}`,
    '!wait 1',
    '!say 60',
  ].join('\n')
}

it.each(engines)(
  '[R3] [R4] [L5] processes every message exactly once across $kills kills during runs, on $engine',
  {
    timeout: 3_000_000,
  },
  async ({ kills, config }) => {
    const port = await freePort()
    server = await startServerProcess(project, { port, config })
    const ids: string[] = []
    for (let count = 0; count < CONVERSATIONS; count++)
      ids.push((await server.client.createConversation()).id)
    const reader = follow(server.client, ids[0] ?? '')
    const sent: { id: string; runId: string; number: number }[] = []

    for (let kill = 0; kill < kills; kill++) {
      const sending = sendSome(server, ids, kill, sent)
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 700))
      await server.kill()
      server = await startServerProcess(project, { port, config })
      await sending
    }

    for (const id of ids) {
      await expect
        .poll(() => server.client.queue(id), { timeout: 120_000, interval: 100 })
        .toMatchObject({ active: null, items: [] })
    }

    const effects = (await readFile(join(project, 'effects.log'), 'utf8')).split('\n')
    for (const id of ids) {
      const frames = await framesOf(server.client, id)
      const expected = sent.filter((one) => one.id === id)
      checkLedger(frames, expected)
      checkTranscript(frames)
      checkEffects(frames, effects)
    }
    // A reader that followed throughout has received exactly the stored events.
    const last = transcriptOf(await framesOf(server.client, ids[0] ?? ''))
    await expect.poll(() => reader.transcript()?.head, { timeout: 30_000 }).toBe(last.head)
    expect(reader.transcript()).toEqual(last)
    reader.stop()
    await server.kill()
    const database = config.databaseUrl ? ['--database-url', config.databaseUrl] : []
    const { stdout } = await run(process.execPath, [cli, 'verify', '--project', project, ...database], {
      env: commandEnv(project),
    })
    expect(stdout).toMatch(/: clean\n$/)
  },
)

/** Sends a message to every conversation, retrying until it is accepted: the server may be down. */
async function sendSome(
  server: ServerProcess,
  ids: readonly string[],
  kill: number,
  sent: { id: string; runId: string; number: number }[],
): Promise<void> {
  await Promise.all(
    ids.map(async (id, index) => {
      const number = kill * ids.length + index
      // Skip conversations with enough queued messages.
      const { items } = await server.client.queue(id).catch(() => ({ items: [] }))
      if (items.length > 5) return
      const idempotencyKey = newId('msg')
      for (let attempt = 0; attempt < 200; attempt++) {
        try {
          const { run_id } = await server.client.sendMessage(
            id,
            { content: messageOf(number) },
            { idempotencyKey },
          )
          sent.push({ id, runId: run_id, number })
          return
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      }
      throw new Error('the message was never accepted')
    }),
  )
}

/** Checks that every accepted message is stored once and that its run ends with its only terminal frame. */
function checkLedger(frames: readonly AnyFrame[], expected: readonly { runId: string }[]): void {
  expect(frames.map((frame) => frame.event_id)).toEqual(frames.map((_, index) => index + 1))
  const runIds = expected.map((one) => one.runId)
  expect(ofKind(frames, 'message.user').map((frame) => frame.stream_id)).toEqual(runIds)
  const terminal = frames.filter((frame) => frame.kind === 'final' || frame.kind === 'error')
  expect(terminal.map((frame) => frame.stream_id)).toEqual(runIds)
  for (const runId of runIds) {
    const own = frames.filter((frame) => frame.stream_id === runId)
    expect(own.map((frame) => frame.sequence_number)).toEqual(own.map((_, index) => index + 1))
    expect(own.at(-1)).toMatchObject({ kind: 'final', final: { status: 'completed' } })
  }
}

/** Checks that nothing is shown as in progress and that every call that started has an outcome. */
function checkTranscript(frames: readonly AnyFrame[]): void {
  for (const entry of runsOf(transcriptOf(frames))) {
    expect(entry.status).toBe('completed')
    for (const item of entry.items) if (item.type !== 'mark') expect(item.status).not.toBe('in_progress')
    for (const tool of toolsOf(entry)) {
      // A call whose arguments were still streaming when the server died never ran.
      if (tool.phase !== 'arguments') expect(tool.output, `${tool.name} ${tool.argumentsText}`).toBeDefined()
    }
    // The answer is complete, however often it was restarted.
    expect(entry.final?.response_text?.split(' ')).toHaveLength(60)
  }
}

/** Checks that a call reported as successful ran once, and one with an unknown outcome at most once. */
function checkEffects(frames: readonly AnyFrame[], effects: readonly string[]): void {
  for (const entry of runsOf(transcriptOf(frames))) {
    for (const tool of toolsOf(entry)) {
      const word = /echo (\w+) >>/.exec(tool.argumentsText)?.[1]
      if (word === undefined || tool.output === undefined) continue
      const count = effects.filter((line) => line === word).length
      const isKnown = String(tool.output).includes('Exit code 0')
      expect(count, `${word}: ${String(tool.output)}`).toBeLessThanOrEqual(1)
      if (isKnown) expect(count, word).toBe(1)
    }
  }
  expect(new Set(effects.filter(Boolean)).size).toBe(effects.filter(Boolean).length)
}

function follow(client: Client, id: string) {
  const stop = new AbortController()
  let transcript: Transcript | null = null
  void (async () => {
    for await (const next of client.transcript(id, { signal: stop.signal, firstWaitMs: 20 }))
      transcript = next
  })()
  return { transcript: () => transcript, stop: () => stop.abort() }
}
