import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import { testAgent } from '../support/hosted-agents.ts'
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

describe('a hosted agent', () => {
  let project: string
  let sessions: string
  let server: TestServer

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-hosted-'))
    sessions = mkdtempSync(join(tmpdir(), 'waymark-sessions-'))
    server = await start()
  })
  afterAll(async () => {
    await server.close()
    for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
  })

  const start = (without = '') => startTestServer({ project, ...testAgent(sessions, without) })
  /** A conversation in which the agent asks before each command and is allowed to run it, which makes their order certain. */
  async function newAllowed(): Promise<string> {
    const id = await newConversation()
    const first = ask(server, id, '!ask true')
    const asked = await frameWhen(server, id, 'tool.approval')
    const always = { match: 'tool', scope: 'conversation' } as const
    await approve(server.client, id, asked.stream_id ?? '', asked.tool_call_id, { always })
    await first
    return id
  }
  const newConversation = async () => (await server.client.createConversation({ agent: 'test' })).id
  const at = (path: string) => join(project, path)
  const cards = async (id: string) => toolsOf(runsOf(transcriptOf(await allFrames(server, id))).at(-1))
  const recalled = (frames: Parameters<typeof finalOf>[0]) =>
    JSON.parse((finalOf(frames).response_text ?? '').replace(/^.*?memory: /s, '')) as string[]

  it('streams text, thoughts, plans, its mode and its usage', async () => {
    const id = await newConversation()
    const frames = await ask(
      server,
      id,
      '!think about it\n!plan first this\n!commands review\n!mode careful\n!title A title\n!say hello from here',
    )
    expect(finalOf(frames)).toMatchObject({
      status: 'completed',
      response_text: 'hello from here',
      usage: { input_tokens: 10, output_tokens: 5 },
    })
    expect(ofKind(frames, 'reasoning_summary.delta').map(({ delta }) => delta)).toEqual(['about it'])
    const plan = (await cards(id)).find(({ name }) => name === 'plan')
    expect(plan?.argumentsJson).toMatchObject({ entries: [{ content: 'first this' }] })
    const updates = ofKind(frames, 'agent.updated')
    expect(updates.map(({ to_agent }) => to_agent)).toEqual(['test', 'test', 'test'])
    expect(updates[1]?.commands).toEqual([{ name: 'review', description: 'x' }])
    expect(updates[2]?.mode).toBe('careful')
    expect((await server.client.conversation(id)).title).toBe('A title')
  })

  it('[L10] keeps updates that it does not know, or that have other fields than expected', async () => {
    const id = await newConversation()
    const odd =
      '!update {"sessionUpdate":"hologram","shape":"cube"}\n!update {"sessionUpdate":"plan"}\n!rubbish'
    const frames = await ask(
      server,
      id,
      `${odd}\n!update {"sessionUpdate":"tool_call","toolCallId":7}\n!say still here`,
    )
    expect(finalOf(frames).response_text).toBe('still here')
    const names = (await cards(id)).map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['hologram', 'plan']))
  })

  it('[W1] records what a shell command and an edit tool changed, with the call that did it', async () => {
    const id = await newAllowed()
    writeFileSync(at('person.txt'), 'by a person')
    const lines = ['!ask echo one > one.txt; echo done', '!edit two.txt two', '!ask rm one.txt']
    const frames: AnyFrame[] = []
    for (const line of lines) frames.push(...(await ask(server, id, line)))
    const edits = ofKind(frames, 'file.edit')
    expect(edits.map(({ path, change }) => [path, change])).toEqual([
      ['one.txt', 'added'],
      ['two.txt', 'added'],
      ['one.txt', 'deleted'],
    ])
    const calls = runsOf(transcriptOf(frames)).flatMap(toolsOf)
    expect(calls.map(({ details }) => details?.title)).toEqual([
      'echo one > one.txt; echo done',
      'Edit two.txt',
      'rm one.txt',
    ])
    expect(edits.map(({ tool_call_id }) => tool_call_id)).toEqual(calls.map(({ toolCallId }) => toolCallId))
    expect(calls[0]?.output).toBe('done\n')
    expect(calls.map(({ phase }) => phase)).toEqual(['output', 'output', 'output'])
  })

  it('[W1] restores every state between a hundred shell edits', async () => {
    const id = await newAllowed()
    const lines = Array.from(
      { length: 100 },
      (_, n) => `!ask echo ${n} > counter.txt; echo ${n} > file-${n}.txt`,
    )
    const frames = await ask(server, id, lines.join('\n'))
    const edits = ofKind(frames, 'file.edit')
    expect(edits).toHaveLength(200)
    const commands = new Map((await cards(id)).map(({ toolCallId, details }) => [toolCallId, details?.title]))
    for (const { path, tool_call_id } of edits) {
      const number = path === 'counter.txt' ? null : path.replace(/\D/g, '')
      const command = commands.get(tool_call_id ?? '')
      expect(command).toBeDefined()
      if (number !== null) expect(command).toBe(`echo ${number} > counter.txt; echo ${number} > ${path}`)
    }
    const checkpoints = ofKind(frames, 'workspace.checkpoint').filter(({ label }) =>
      label.startsWith('After: '),
    )
    expect(checkpoints).toHaveLength(100)
    for (const n of [0, 1, 50, 98, 99]) {
      const { restored_to } = await server.client.restore(id, {
        checkpoint_id: checkpoints[n]?.checkpoint_id ?? '',
      })
      expect(restored_to).toBe(checkpoints[n]?.checkpoint_id)
      expect(readFileSync(at('counter.txt'), 'utf8')).toBe(`${n}\n`)
    }
  })

  it('[W10] reads and writes files through the confined folder', async () => {
    const id = await newConversation()
    const frames = await ask(server, id, '!fs notes.txt some words\n!read /etc/passwd\n!read ../outside')
    expect(finalOf(frames).response_text).toContain('wrote some words')
    expect(finalOf(frames).response_text).not.toContain('root:')
    expect(ofKind(frames, 'file.edit')).toMatchObject([{ path: 'notes.txt', change: 'added' }])
    expect((await cards(id)).map(({ name }) => name)).toEqual(['write_to_file'])
  })

  it('[T5] asks before it runs a command in a terminal of ours', async () => {
    const id = await newConversation()
    const answering = ask(server, id, '!terminal echo from the terminal')
    const asked = await frameWhen(server, id, 'tool.approval')
    expect(asked).toMatchObject({ tool_name: 'run_command', status: 'requested' })
    await approve(server.client, id, asked.stream_id ?? '', asked.tool_call_id)
    expect(finalOf(await answering).response_text).toContain('exit 0: from the terminal')
  })

  it.each([true, false])(
    '[T5] asks a person for a permission, with the options of the agent: %s',
    async (isApproved) => {
      const id = await newConversation()
      const name = `asked-${isApproved}.txt`
      const answering = ask(server, id, `!ask echo yes > ${name}\n!say done`)
      const asked = await frameWhen(server, id, 'tool.approval')
      expect(asked.options?.map(({ name: one }) => one)).toEqual(['Yes', 'Always', 'No'])
      expect((await server.client.conversation(id)).is_asking).toBe(true)
      const runId = asked.stream_id ?? ''
      // What a person saves meanwhile is not the command's.
      writeFileSync(at(`saved-${isApproved}.txt`), 'saved while it waited')
      if (isApproved) await approve(server.client, id, runId, asked.tool_call_id)
      else
        await server.client.answerApproval(id, runId, { tool_call_id: asked.tool_call_id, approved: false })
      const frames = await answering
      expect(finalOf(frames).status).toBe('completed')
      const paths = ofKind(frames, 'file.edit').map(({ path }) => path)
      expect(paths).toEqual(isApproved ? [name] : [])
      const [call] = await cards(id)
      expect(call).toMatchObject({ name: 'test__execute', phase: isApproved ? 'output' : 'failed' })
    },
  )

  it("[T5] passes a person's choice among the agent's own options on to it", async () => {
    const id = await newConversation()
    const answering = ask(server, id, '!ask-option true')
    const asked = await frameWhen(server, id, 'tool.approval')
    const runId = asked.stream_id ?? ''
    const question = await server.client.question(id, runId, asked.tool_call_id)
    expect(question.options.map(({ id: one, kind }) => [one, kind])).toEqual([
      ['yes', 'allow_once'],
      ['always', 'allow_always'],
      ['no', 'reject_once'],
    ])
    const { question_sha256 } = question
    const answer = (approved: boolean, option_id: string) =>
      server.client.answerApproval(id, runId, {
        tool_call_id: asked.tool_call_id,
        approved,
        question_sha256,
        option_id,
      })
    // Neither an option that was not offered, nor one of the other sense.
    await expect(answer(true, 'other')).rejects.toThrow('no such option')
    await expect(answer(false, 'always')).rejects.toThrow('no such option')
    await answer(true, 'always')
    const frames = await answering
    expect(finalOf(frames).response_text).toContain('option always')
    expect(ofKind(frames, 'tool.approval').at(-1)).toMatchObject({ status: 'approved', option_id: 'always' })
  })

  it('[T5] needs no answer for a call that a rule allows', async () => {
    const id = await newConversation()
    const first = ask(server, id, '!ask ls one')
    const asked = await frameWhen(server, id, 'tool.approval')
    const always = { match: 'prefix', scope: 'conversation' } as const
    await approve(server.client, id, asked.stream_id ?? '', asked.tool_call_id, { always })
    await first
    const frames = await ask(server, id, '!ask ls two')
    expect(ofKind(frames, 'tool.approval')).toMatchObject([{ status: 'approved' }])
  })

  it('[T5] allows nothing that changes files in a conversation that is read only', async () => {
    const id = await newConversation()
    await server.client.changeConversation(id, { mode: 'read_only' })
    const frames = await ask(server, id, '!ask touch no.txt\n!fs no.txt no\n!say end')
    expect(ofKind(frames, 'file.edit')).toEqual([])
    expect(ofKind(frames, 'tool.approval')).toMatchObject([{ status: 'denied', by: 'mode' }])
  })

  it('[R2] stops inside a command and continues its session with the next message', async () => {
    const id = await newConversation()
    const answering = ask(server, id, '!say first words\n!shell sleep 30')
    await frameWhen(server, id, 'tool.status', ({ tool }) => tool.status === 'in_progress')
    const queued = ask(server, id, '!recall')
    await server.client.stop(id)
    expect(finalOf(await answering).status).toBe('cancelled')
    expect(recalled(await queued)).toHaveLength(2)
  })

  it('[R2] is killed when it does not stop, and is given the transcript the next time', async () => {
    const id = await newConversation()
    const answering = ask(server, id, '!say some words\n!hang')
    await frameWhen(server, id, 'message.delta')
    await server.client.stop(id)
    expect(finalOf(await answering).status).toBe('cancelled')
    const frames = await ask(server, id, '!recall')
    const [memory = ''] = recalled(frames)
    expect(memory).toContain('Agent: some words')
    expect(
      ofKind(frames, 'lifecycle').some(({ reason }) => reason?.includes('is given the transcript')),
    ).toBe(true)
  })

  it.each([
    ['exits', '!say half\n!exit 5', 'exit code 5'],
    ['exits in the middle of a line', '!half', 'exit code 3'],
    ['sends an endless line', '!long-line 20000000\n!hang', 'too long'],
    ['reports an error', '!fail out of order', 'agent_failed'],
  ])('[R5] ends the run with an error when it %s, and answers the next message', async (_, lines, text) => {
    const id = await newConversation()
    const frames = await ask(server, id, lines)
    expect(frames.at(-1)).toMatchObject({ kind: 'error', error: { source: 'provider' } })
    expect(JSON.stringify(frames.at(-1))).toContain(text)
    expect(finalOf(await ask(server, id, '!say again')).response_text).toBe('again')
  })

  it('[R1] answers a queue of ten in order', async () => {
    const id = await newConversation()
    const answers = Array.from({ length: 10 }, (_, n) => ask(server, id, `!say answer ${n}`))
    const all = (await Promise.all(answers)).map((frames) => finalOf(frames).response_text)
    expect(new Set(all)).toEqual(new Set(Array.from({ length: 10 }, (_, n) => `answer ${n}`)))
    const finals = ofKind(await allFrames(server, id), 'final')
    expect(finals).toHaveLength(10)
  })

  it('keeps up with a flood', async () => {
    const frames = await ask(server, await newConversation(), '!flood 20000')
    expect((finalOf(frames).response_text ?? '').split(' ')).toHaveLength(20_001)
  })

  it('replays to the same transcript', async () => {
    const id = await newConversation()
    const live = await ask(server, id, '!think x\n!shell echo 1 > replayed.txt\n!say end')
    const again = (await framesOf(server.client, id)).filter(
      (frame) => frame.stream_id === live[0]?.stream_id,
    )
    expect(again).toEqual(live)
  })

  describe('remembers the line', () => {
    it('in one session, message after message, and after a restart of the server', async () => {
      const id = await newConversation()
      await ask(server, id, '!say one')
      await ask(server, id, '!say two')
      expect(recalled(await ask(server, id, '!recall'))).toEqual(['!say one', '!say two', '!recall'])
      await server.close()
      server = await start()
      expect(recalled(await ask(server, id, '!recall'))).toHaveLength(4)
      await server.close()
      server = await start('resume')
      expect(recalled(await ask(server, id, '!recall'))).toHaveLength(5)
      await server.close()
      server = await start('resume,load')
      const frames = await ask(server, id, '!recall')
      expect(recalled(frames)).toHaveLength(1)
      expect(recalled(frames)[0]).toContain('Person: !say two')
      await server.close()
      server = await start()
    })

    it('in a fork at the end, by a fork of the session; in one in the middle, by the transcript', async () => {
      const id = await newConversation()
      await ask(server, id, '!say one')
      await ask(server, id, '!say two')
      const { items } = await server.client.messages(id)
      const end = await server.client.fork(id, {})
      expect(end.agent).toBe('test')
      expect(recalled(await ask(server, end.id, '!recall'))).toEqual(['!say one', '!say two', '!recall'])
      const second = items.filter(({ role }) => role === 'user')[1]?.message_id ?? ''
      const middle = await server.client.fork(id, { message_id: second })
      const [memory = '', ...others] = recalled(await ask(server, middle.id, '!recall'))
      expect(others).toEqual([])
      expect(memory).toContain('Person: !say one')
      expect(memory).not.toContain('!say two')
      // The parent's own session is unchanged.
      expect(recalled(await ask(server, id, '!recall'))).toEqual(['!say one', '!say two', '!recall'])
    })

    it('after a deletion, and after it is undone', async () => {
      const id = await newConversation()
      await ask(server, id, '!say one')
      await ask(server, id, '!say two')
      const { items } = await server.client.messages(id)
      const second = items.filter(({ role }) => role === 'user')[1]?.message_id ?? ''
      await server.client.deleteMessage(id, second)
      const [memory = ''] = recalled(await ask(server, id, '!recall'))
      expect(memory).toContain('!say one')
      expect(memory).not.toContain('!say two')
      await server.client.undelete(id, { message_id: second })
      const [again = ''] = recalled(await ask(server, id, '!recall'))
      expect(again).toContain('!say two')
    })

    it('when the conversation changes to our own agent and back', async () => {
      const id = await newConversation()
      await ask(server, id, '!say my name is Ada')
      await server.client.changeConversation(id, { agent: null })
      const own = await ask(server, id, 'What is my name?')
      expect(finalOf(own).response_text).toContain('Ada')
      await server.client.changeConversation(id, { agent: 'test' })
      const [memory = ''] = recalled(await ask(server, id, '!recall'))
      expect(memory).toContain('What is my name?')
    })
  })

  it('[W8] works in two forks with their own files at once', async () => {
    const id = await newConversation()
    await ask(server, id, '!edit shared.txt base')
    const forks = await Promise.all([1, 2].map(() => server.client.fork(id, { files: 'copy' })))
    const runs = forks.map(({ id: one }, n) =>
      ask(server, one, `!shell echo ${n} > shared.txt; sleep 0.2; cat shared.txt`),
    )
    const answers = await Promise.all(runs)
    for (const [n, frames] of answers.entries()) {
      expect(ofKind(frames, 'file.edit')).toMatchObject([{ path: 'shared.txt', change: 'modified' }])
      const call = toolsOf(runsOf(transcriptOf(frames)).at(-1))[0]
      expect(call?.output).toBe(`${n}\n`)
    }
    expect(readFileSync(at('shared.txt'), 'utf8')).toBe('base')
  })

  it('[T14] is refused without workspace:write, and says how to install a missing agent', async () => {
    const token = await server.tokenFor('local', ['conversations:read', 'conversations:write'])
    const response = await fetch(`${server.url}/api/v1/conversations`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ agent: 'test' }),
    })
    expect(response.status).toBe(403)
    const { items } = await server.client.agents()
    expect(items.map(({ name }) => name)).toEqual(['codex', 'claude', 'opencode', 'gemini', 'test'])
    const missing = items.find(({ is_installed }) => !is_installed)
    const { id } = await server.client.createConversation({ agent: missing?.name ?? '' })
    const frames = await ask(server, id, 'hello')
    expect(frames.at(-1)).toMatchObject({ kind: 'error', error: { code: 'agent_not_installed' } })
    expect(JSON.stringify(frames.at(-1))).toContain(missing?.install)
  })
})
