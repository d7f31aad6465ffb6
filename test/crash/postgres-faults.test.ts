import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import type { Frame } from '../../src/protocol/frames.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { framesOf, ofKind } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'

const PROCESSES = 3
let project: string
let data: string
let postgres: Awaited<ReturnType<typeof startPostgres>>
let servers: ServerProcess[] = []
/** Exits of processes that were not killed by the test. */
let ended: string[] = []

beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), 'waymark-faults-'))
  data = await mkdtemp(join(tmpdir(), 'waymark-faults-data-'))
  postgres = await startPostgres()
  servers = []
  ended = []
})
afterEach(async () => {
  await Promise.all(servers.map((one) => one.kill()))
  await postgres.stop().catch(() => {})
  for (const folder of [project, data]) await rm(folder, { recursive: true, force: true })
})

async function startWorker(): Promise<ServerProcess> {
  const one = await startServerProcess(project, {
    config: {
      databaseUrl: `${postgres.url}/postgres`,
      dataDir: data,
      workspaceId: 'Shared.Folder',
      tools: { run_command: 'allow' as const },
      leaseSeconds: 2,
      gcMinutes: 1000,
      logLevel: 'silent' as const,
    },
  })
  let isKilled = false
  one.process.once('exit', (code, signal) => {
    if (!isKilled && signal !== 'SIGKILL') ended.push(`code ${code}, signal ${signal}`)
  })
  return {
    ...one,
    async kill() {
      isKilled = true
      one.process.kill('SIGCONT')
      await one.kill()
    },
  }
}

const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T

/** Faults of the database and of the processes that use it. */
const faults: Record<string, () => Promise<void>> = {
  'terminated connections': async () => {
    const client = new pg.Client({ connectionString: `${postgres.url}/postgres` })
    await client.connect()
    await client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'",
    )
    await client.end()
  },
  'a restart of the database': async () => {
    await postgres.whileAway(() => setTimeout(Math.random() * 3000))
  },
  'a killed process': async () => {
    const at = Math.floor(Math.random() * servers.length)
    await servers[at]?.kill()
    servers[at] = await startWorker()
  },
  'a process paused past its lease': async () => {
    const one = pick(servers)
    one.process.kill('SIGSTOP')
    await setTimeout(2500 + Math.random() * 1500)
    one.process.kill('SIGCONT')
  },
}

it('[L5] [R3] [R4] [R6] ends every message with one terminal frame despite database and process faults', {
  timeout: 10_000_000,
}, async () => {
  for (let i = 0; i < PROCESSES; i++) servers.push(await startWorker())
  const ids: string[] = []
  for (let i = 0; i < 4; i++) ids.push((await (servers[0] as ServerProcess).client.createConversation()).id)
  const accepted = new Map<string, { id: string; path: string; text: string }>()
  const statuses: number[] = []
  let isOver = false

  /** Sends messages like a client: each with an idempotency key, retried until it is accepted. */
  async function send(id: string): Promise<void> {
    for (let n = 0; !isOver; n++) {
      const path = `${id}.txt`
      const text = `${n} ${randomBytes(4).toString('hex')}`
      const content = `!write_to_file ${JSON.stringify({ path, content: text })}\n!say 20`
      const key = randomBytes(12).toString('hex')
      for (;;) {
        const { url, token } = pick(servers)
        const answer = await fetch(`${url}/api/v1/conversations/${id}/messages`, {
          method: 'POST',
          headers: {
            Authorization: `Bearer ${token}`,
            'Content-Type': 'application/json',
            'Idempotency-Key': key,
          },
          body: JSON.stringify({ content }),
          signal: AbortSignal.timeout(60_000),
        }).catch(() => null)
        if (answer) statuses.push(answer.status)
        if (answer?.status === 202) {
          const { run_id } = (await answer.json()) as { run_id: string }
          accepted.set(run_id, { id, path, text })
          break
        }
        await setTimeout(100)
      }
      await setTimeout(150 + Math.random() * 200)
    }
  }

  const sending = ids.map(send)
  const names = Object.keys(faults)
  for (let round = 0; round < rounds(names.length + 1, 300); round++) {
    await setTimeout(300 + Math.random() * 1200)
    await faults[names[round % names.length] ?? '']?.()
  }
  isOver = true
  await Promise.all(sending)
  const client = createClient(servers[0] as ServerProcess)
  for (const id of ids) {
    await expect
      .poll(() => client.queue(id).catch(() => null), { timeout: 120_000, interval: 200 })
      .toMatchObject({ active: null, items: [] })
  }
  expect(accepted.size).toBeGreaterThan(5)
  const wrong: string[] = []
  for (const id of ids) {
    const frames = await framesOf(client, id)
    const runs = [...accepted].filter(([, one]) => one.id === id)
    for (const [runId] of runs) {
      const own = frames.filter((frame) => frame.stream_id === runId)
      const ends = own.filter((frame) => frame.kind === 'final' || frame.kind === 'error')
      if (ends.length !== 1) wrong.push(`${runId} has ${ends.length} terminal frames`)
      const [end] = ends
      if (end?.kind === 'error')
        wrong.push(`${runId} failed: ${JSON.stringify((end as Frame<'error'>).error)}`)
      const calls = new Set(ofKind(own, 'tool.arguments.done').map((frame) => frame.tool_call_id))
      const outcomes = new Set(ofKind(own, 'tool.output').map((frame) => frame.tool_call_id))
      for (const call of calls) if (!outcomes.has(call)) wrong.push(`${runId}: ${call} has no outcome`)
    }
    // The file holds the last recorded write.
    const edits = ofKind(frames, 'file.edit')
    const last = edits.at(-1)
    const file = join(project, `${id}.txt`)
    const said = existsSync(file) ? readFileSync(file, 'utf8') : ''
    const isUnknown = ofKind(frames, 'tool.output').some((frame) =>
      String(frame.output).includes('unknown whether'),
    )
    if (last && !isUnknown && !last.diff?.includes(`+${said}`))
      wrong.push(`${file} has an old write: ${said}`)
  }
  expect(wrong).toEqual([])
  expect(statuses.filter((status) => status >= 500 && status !== 503)).toEqual([])
  expect(ended).toEqual([])
})
