import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Client } from '../../src/client/index.ts'
import { type DemoModel, startDemoModel } from '../../src/demo-model/server.ts'
import type { Frame } from '../../src/protocol/frames.ts'
import {
  allFrames,
  approve,
  ask,
  finalOf,
  framesOf,
  frameWhen,
  ofKind,
  runsOf,
  toolsOf,
  transcriptOf,
} from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { installed, realAgents } from './real-agents.ts'

const KILLS = rounds(3, 20)
/** An agent that is killed in the middle of its answer is asked to continue, and the demo model then says something else. */
const ANSWERED = /the (next|This is the demo model)/

/** Agents as their makers publish them, with the demo model as their provider: `npm run test:agents`. */
for (const agent of realAgents) {
  describe.runIf(agent.isInstalled)(`the agent ${agent.name}`, { timeout: 600_000 }, () => {
    let project: string
    let home: string
    let model: DemoModel
    let server: TestServer

    beforeAll(async () => {
      project = mkdtempSync(join(tmpdir(), `waymark-${agent.name}-`))
      // Codex refuses to work with a home in the system's folder for temporary files.
      const homes = join(installed, '.homes')
      mkdirSync(homes, { recursive: true })
      home = mkdtempSync(join(homes, `${agent.name}-`))
      model = await startDemoModel()
      server = await start()
    })
    afterAll(async () => {
      await server.close()
      await model.close()
      for (const folder of [project, home]) rmSync(folder, { recursive: true, force: true })
    })

    const start = () =>
      startTestServer({
        project,
        agents: {
          free: agent.prepare(home, model.url, false),
          asking: agent.prepare(`${home}-asking`, model.url, true),
        },
      })
    const newConversation = async (name = 'free') =>
      (await server.client.createConversation({ agent: name })).id
    const said = (frames: Parameters<typeof finalOf>[0]) => finalOf(frames).response_text ?? ''

    it('answers', async () => {
      const frames = await ask(server, await newConversation(), '!say "hello from the agent"')
      expect(said(frames)).toContain('hello from the agent')
    })

    it('shows its thoughts and its plan', async () => {
      const id = await newConversation()
      const frames = await ask(server, id, `!think 6\n${agent.plan('first this')}`)
      const thought = ofKind(frames, 'reasoning_summary.delta').map(({ delta }) => delta)
      expect(thought.join('').trim()).toBe('the ledger keeps every word that')
      // opencode reports its plan as a call, the others as a plan.
      const cards = toolsOf(runsOf(transcriptOf(frames)).at(-1))
      expect(cards.map(({ argumentsText }) => argumentsText).join('')).toContain('"content":"first this"')
    })

    it('records what its commands and its edit tool change', async () => {
      const id = await newConversation()
      const frames = await ask(server, id, agent.shell('echo one > one.txt; echo printed'))
      expect(ofKind(frames, 'file.edit')).toMatchObject([{ path: 'one.txt', change: 'added' }])
      const [call] = toolsOf(runsOf(transcriptOf(frames)).at(-1))
      expect(String(call?.output)).toContain('printed')
      expect(ofKind(frames, 'file.edit')[0]?.tool_call_id).toBe(call?.toolCallId)
      const edited = await ask(server, id, agent.edit(join(project, 'two.txt'), 'two\n'))
      expect(ofKind(edited, 'file.edit')).toMatchObject([{ path: 'two.txt', change: 'added' }])
    })

    it('leaves a checkpoint after every one of many commands, and each can be restored', async () => {
      const id = await newConversation()
      const lines = Array.from({ length: 10 }, (_, n) => agent.shell(`echo ${n} > counter.txt`))
      const frames = await ask(server, id, lines.join('\n'))
      const edits = ofKind(frames, 'file.edit').filter(({ path }) => path === 'counter.txt')
      expect(edits).toHaveLength(10)
      expect(new Set(edits.map(({ tool_call_id }) => tool_call_id)).size).toBe(10)
      const after = ofKind(frames, 'workspace.checkpoint').filter(({ label }) => label.startsWith('After: '))
      for (const n of [0, 5, 9]) {
        await server.client.restore(id, { checkpoint_id: after[n]?.checkpoint_id ?? '' })
        expect(readFileSync(join(project, 'counter.txt'), 'utf8')).toBe(`${n}\n`)
      }
    })

    it.each([true, false])('asks for a permission, which is given: %s', async (isApproved) => {
      const id = await newConversation('asking')
      const file = `asked-${isApproved}.txt`
      const answering = ask(server, id, agent.shell(`echo yes > ${file}`, true))
      const asked = await frameWhen(server, id, 'tool.approval', ({ status }) => status === 'requested')
      const runId = asked.stream_id ?? ''
      if (isApproved) await approve(server.client, id, runId, asked.tool_call_id)
      else
        await server.client.answerApproval(id, runId, { tool_call_id: asked.tool_call_id, approved: false })
      const paths = ofKind(await answering, 'file.edit').map(({ path }) => path)
      expect(paths).toEqual(isApproved ? [file] : [])
    })

    it('stops inside a command, and answers the next message', async () => {
      const id = await newConversation()
      const answering = ask(server, id, agent.shell('sleep 60'))
      await frameWhen(server, id, 'tool.status', ({ tool }) => tool.status === 'in_progress')
      await server.client.stop(id)
      expect(finalOf(await answering).status).toBe('cancelled')
      expect(said(await ask(server, id, '!say "next answer"'))).toContain('next answer')
    })

    it('remembers the conversation: in its session, after a restart, in forks, and after a deletion', async () => {
      const id = await newConversation()
      const name = async (of: string) => said(await ask(server, of, 'What is my name?'))
      await ask(server, id, 'My name is Ada.')
      expect(await name(id)).toContain('Ada')
      await server.close()
      server = await start()
      expect(await name(id)).toContain('Ada')
      const end = await server.client.fork(id, {})
      expect(await name(end.id)).toContain('Ada')
      const { items } = await server.client.messages(id)
      const second = items.filter(({ role }) => role === 'user')[1]?.message_id ?? ''
      const middle = await server.client.fork(id, { message_id: second })
      expect(await name(middle.id)).toContain('Ada')
      await server.client.deleteMessage(id, items[0]?.message_id ?? '')
      expect(await name(id)).not.toContain('Ada')
      await server.client.undelete(id, { message_id: items[0]?.message_id ?? '' })
      expect(await name(id)).toContain('Ada')
    })

    it('[R1] answers a queue of ten in order', async () => {
      const id = await newConversation()
      await Promise.all(Array.from({ length: 10 }, (_, n) => ask(server, id, `!say "answer ${n}"`)))
      const finals = ofKind(await allFrames(server, id), 'final').map(
        ({ final }) => final.response_text ?? '',
      )
      expect(finals).toHaveLength(10)
      expect(finals.every((text) => /answer \d/.test(text))).toBe(true)
    })

    it('[W8] works in two forks with their own files at once', async () => {
      const id = await newConversation()
      await ask(server, id, agent.shell('echo base > shared.txt'))
      const forks = await Promise.all([1, 2].map(() => server.client.fork(id, { files: 'copy' })))
      const runs = forks.map(({ id: one }, n) => ask(server, one, agent.shell(`echo ${n} > shared.txt`)))
      for (const frames of await Promise.all(runs)) {
        expect(ofKind(frames, 'file.edit')).toMatchObject([{ path: 'shared.txt', change: 'modified' }])
      }
      expect(readFileSync(join(project, 'shared.txt'), 'utf8')).toBe('base\n')
    })

    it('[R3] [R4] ends each message once although it is killed at random moments', async () => {
      for (let round = 0; round < KILLS; round++) {
        const { client } = server
        const id = await sendTwo(client)
        await setTimeout(Math.random() * 4000)
        for (const pid of agentPids()) kill(pid)
        expect(await lastAnswer(client, id)).toMatch(ANSWERED)
      }
    })

    it('[R3] [R4] [T14] ends each message once although the server is killed at random moments', async () => {
      const other = mkdtempSync(join(tmpdir(), `waymark-${agent.name}-killed-`))
      const config = { agents: { free: agent.prepare(home, model.url, false) } }
      await server.close()
      let killed = await startServerProcess(other, { config })
      try {
        for (let round = 0; round < KILLS; round++) {
          const id = await sendTwo(killed.client)
          await setTimeout(Math.random() * 4000)
          await killed.kill()
          await expect.poll(agentPids, { timeout: 20_000 }).toEqual([])
          killed = await startServerProcess(other, { config })
          expect(await lastAnswer(killed.client, id)).toMatch(ANSWERED)
        }
      } finally {
        await killed.kill()
        rmSync(other, { recursive: true, force: true })
        server = await start()
      }
    })

    async function sendTwo(client: Client): Promise<string> {
      const { id } = await client.createConversation({ agent: 'free' })
      await client.sendMessage(id, {
        content: `${agent.shell('sleep 0.3; echo 1 >> log.txt')}\n!say "the end"`,
      })
      await client.sendMessage(id, { content: '!say "the next"' })
      return id
    }

    /** The last answer, once both messages have ended, each once. */
    async function lastAnswer(client: Client, id: string): Promise<string> {
      await expect
        .poll(() => client.queue(id), { timeout: 60_000 })
        .toMatchObject({ active: null, items: [] })
      const frames = await framesOf(client, id)
      const ends = frames.filter(({ kind }) => kind === 'final' || kind === 'error')
      expect(ends).toHaveLength(2)
      for (const run of runsOf(transcriptOf(frames))) {
        for (const tool of toolsOf(run)) expect(tool.endedAt, JSON.stringify(tool)).not.toBeNull()
      }
      const last = ends.at(-1) as Frame
      // A late kill ends the second message with an error.
      if (last.kind !== 'final') return 'the next was killed'
      // The final frame has only what the agent said last.
      const texts = ofKind(frames, 'message.delta').filter(({ stream_id }) => stream_id === last.stream_id)
      const said = texts.map(({ delta }) => delta).join('')
      // The demo model acts on lines of the transcript that a new session is given.
      const isSeeded = ofKind(frames, 'lifecycle').some(
        ({ stream_id, reason = '' }) => stream_id === last.stream_id && reason.includes('new session'),
      )
      return isSeeded && said.endsWith('the end') ? 'the next, from the transcript' : said
    }

    /** The agents' processes, found by the home in their environment. */
    function agentPids(): number[] {
      const listed = execFileSync('sh', [
        '-c',
        `grep -l -z "HOME=${home}$" /proc/[0-9]*/environ 2>/dev/null || true`,
      ])
      return [...listed.toString().matchAll(/proc\/(\d+)\//g)].map(([, pid]) => Number(pid))
    }

    function kill(pid: number): void {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has just ended.
      }
    }
  })
}
