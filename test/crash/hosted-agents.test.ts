import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AnyFrame, Frame } from '../../src/protocol/frames.ts'
import { testAgent } from '../support/hosted-agents.ts'
import { approve, framesOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'

const ROUNDS = rounds(3, 20)
const WORK =
  '!think it over\n!shell echo 1 >> log.txt; sleep 0.2\n!say some words\n!shell sleep 0.2; echo 2 >> log.txt\n!say the end'

describe('a hosted agent', () => {
  let project: string
  let sessions: string
  let server: ServerProcess

  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-hosted-crash-'))
    sessions = mkdtempSync(join(tmpdir(), 'waymark-sessions-'))
    server = await start()
  })
  afterEach(async () => {
    await server.kill()
    for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
  })

  const start = () => startServerProcess(project, { config: testAgent(sessions) })
  async function idle(id: string): Promise<void> {
    await expect
      .poll(() => server.client.queue(id), { timeout: 60_000, interval: 50 })
      .toMatchObject({ active: null, items: [] })
  }

  /** Every message has one terminal frame, and every call an end. */
  function check(frames: readonly AnyFrame[], messages: number): void {
    const ends = frames.filter(({ kind }) => kind === 'final' || kind === 'error')
    expect(ends).toHaveLength(messages)
    expect(new Set(ends.map(({ stream_id }) => stream_id)).size).toBe(messages)
    for (const run of runsOf(transcriptOf(frames))) {
      for (const tool of toolsOf(run)) expect(tool.endedAt, JSON.stringify(tool)).not.toBeNull()
    }
  }

  /** The agent's processes, found by the session folder in their environment. */
  function agentPids(): string[] {
    const listed = execFileSync('sh', [
      '-c',
      `grep -l -z "ACP_SESSIONS=${sessions}" /proc/[0-9]*/environ 2>/dev/null || true`,
    ])
    return listed
      .toString()
      .split('\n')
      .flatMap((path) => /\/proc\/(\d+)\//.exec(path)?.[1] ?? [])
  }

  it('[R3] [R4] ends each message once although the agent is killed at random moments', {
    timeout: 600_000,
  }, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { id } = await server.client.createConversation({ agent: 'test' })
      await server.client.sendMessage(id, { content: WORK })
      await server.client.sendMessage(id, { content: '!say next' })
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 1200))
      for (const pid of agentPids()) {
        try {
          process.kill(Number(pid), 'SIGKILL')
        } catch {
          // It has just ended.
        }
      }
      await idle(id)
      const frames = await framesOf(server.client, id)
      check(frames, 2)
      // A late kill ends the second message with an error.
      const last = frames.findLast(({ kind }) => kind === 'final' || kind === 'error') as Frame
      const text = last.kind === 'final' ? last.final.response_text : 'next'
      expect(text).toBe('next')
    }
  })

  it('[R3] [R4] ends each message once although the server is killed at random moments', {
    timeout: 600_000,
  }, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { id } = await server.client.createConversation({ agent: 'test' })
      await server.client.sendMessage(id, { content: WORK })
      await server.client.sendMessage(id, { content: '!say next' })
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 1200))
      await server.kill()
      // No agent goes on without a server that records it.
      await expect.poll(agentPids, { timeout: 20_000 }).toEqual([])
      server = await start()
      await idle(id)
      const frames = await framesOf(server.client, id)
      check(frames, 2)
      expect(ofKind(frames, 'final').at(-1)?.final.response_text).toBe('next')
    }
  })

  it('[T14] ends with the server, even if its processes are stopped', async () => {
    const { id } = await server.client.createConversation({ agent: 'test' })
    await server.client.sendMessage(id, { content: '!say here\n!stop-itself' })
    await expect
      .poll(async () => ofKind(await framesOf(server.client, id), 'message.delta').length, {
        timeout: 20_000,
      })
      .toBe(1)
    expect(agentPids()).toHaveLength(1)
    await server.kill()
    await expect.poll(agentPids, { timeout: 20_000 }).toEqual([])
  })

  it('[R4] counts an answer that was given while the agent was gone', { timeout: 120_000 }, async () => {
    const { id } = await server.client.createConversation({ agent: 'test' })
    const { run_id } = await server.client.sendMessage(id, {
      content: '!ask echo allowed > allowed.txt\n!say done',
    })
    const asked = async () => ofKind(await framesOf(server.client, id), 'tool.approval')
    await expect.poll(asked, { timeout: 20_000 }).toHaveLength(1)
    const [question] = await asked()
    await server.kill()
    server = await start()
    await approve(server.client, id, run_id, question?.tool_call_id ?? '')
    await idle(id)
    const frames = await framesOf(server.client, id)
    check(frames, 1)
    // The resumed agent asked again for the same command, and was not made to wait.
    expect(ofKind(frames, 'tool.approval').map(({ status }) => status)).toEqual([
      'requested',
      'approved',
      'approved',
    ])
    expect(ofKind(frames, 'file.edit').map(({ path }) => path)).toEqual(['allowed.txt'])
  })
})
