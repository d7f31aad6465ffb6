import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AnyFrame, parseFrame } from '../../src/protocol/frames.ts'
import { testAgent } from '../support/hosted-agents.ts'
import { allFrames, ask, finalOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

/** What a program that speaks the protocol badly, or with ill intent, must not achieve. */
describe('a hostile hosted agent', () => {
  let project: string
  let sessions: string
  let server: TestServer

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-hostile-agent-'))
    sessions = mkdtempSync(join(tmpdir(), 'waymark-sessions-'))
    server = await startTestServer({ project, ...testAgent(sessions) })
  })
  afterAll(async () => {
    await server.close()
    for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
  })

  const newConversation = async () => (await server.client.createConversation({ agent: 'test' })).id
  const update = (fields: object) => `!update ${JSON.stringify(fields)}`
  const say = (text: unknown) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } })

  /** Every frame is valid, and no call is left open. */
  function check(frames: readonly AnyFrame[]): void {
    for (const frame of frames) parseFrame(frame)
    for (const tool of runsOf(transcriptOf(frames)).flatMap(toolsOf)) {
      expect(tool.endedAt, JSON.stringify(tool)).not.toBeNull()
    }
  }

  it('[L10] stores only valid frames, whatever types its fields have', async () => {
    const odd = { length: 1, a: 'obj' }
    const call = { sessionUpdate: 'tool_call', toolCallId: 'x' }
    const lines = [
      update({ sessionUpdate: 'session_info_update', title: odd }),
      update({
        sessionUpdate: 'available_commands_update',
        availableCommands: [{ name: ['a'], description: odd }],
      }),
      update({ sessionUpdate: 'current_mode_update', currentModeId: odd }),
      update({ sessionUpdate: 'usage_update', used: { evil: 1 }, size: 'x' }),
      say({ a: 1 }),
      say(5),
      update({ ...call, kind: odd, title: odd, locations: [{ path: odd }, null, { path: 'a', extra: odd }] }),
      update({
        ...call,
        sessionUpdate: 'tool_call_update',
        content: [{ type: 'diff', path: 5 }, null, { type: 'content' }],
      }),
      update({ ...call, sessionUpdate: 'tool_call_update', status: 'completed' }),
      update({ sessionUpdate: 'plan', entries: 'none' }),
      '!answer-nothing',
      '!say the end',
    ]
    const id = await newConversation()
    const frames = await ask(server, id, lines.join('\n'))
    expect(finalOf(frames)).toMatchObject({ status: 'completed' })
    expect(finalOf(frames).response_text).toContain('the end')
    expect((await server.client.conversation(id)).is_titled).toBe(false)
    check(await allFrames(server, id))
  })

  it('[W10] reads and writes back a long file without losing a line', async () => {
    const text = Array.from({ length: 5001 }, (_, n) => `line ${n}`).join('\n')
    writeFileSync(join(project, 'long.txt'), text)
    const frames = await ask(server, await newConversation(), '!append long.txt  and more')
    expect(finalOf(frames).response_text).toBe(JSON.stringify('line 1\nline 2'))
    expect(readFileSync(join(project, 'long.txt'), 'utf8')).toBe(`${text} and more`)
  })

  it('[R4] leaves no call, question or change unrecorded when it ends its answer at once', async () => {
    const id = await newConversation()
    const open = update({ sessionUpdate: 'tool_call', toolCallId: 't', title: 'left open', kind: 'execute' })
    const left = ['!write-and-leave text', '!ask-and-leave touch x', '!terminal-and-leave touch y', open]
    for (const line of left) {
      const frames = await ask(server, id, line)
      expect(finalOf(frames).status).not.toBe('failed')
    }
    const frames = await allFrames(server, id)
    check(frames)
    const written = ofKind(frames, 'file.edit').map(({ path }) => path)
    const { items } = await server.client.files(id, {})
    expect(new Set(written)).toEqual(new Set(items.filter((path) => path.startsWith('left-'))))
  })

  it('[T5] [T14] cannot take the id of a call of ours', async () => {
    const id = await newConversation()
    const lines = Array.from({ length: 6 }, (_, n) =>
      update({
        sessionUpdate: 'tool_call',
        toolCallId: `call_item_1_${n + 1}`,
        title: 'mine',
        status: 'completed',
      }),
    )
    const frames = await ask(server, id, [...lines, '!fs mine.txt mine'].join('\n'))
    expect(ofKind(frames, 'file.edit')).toMatchObject([{ path: 'mine.txt' }])
    check(frames)
  })

  it('[T14] sends a message with a million values in vain, and others are answered meanwhile', async () => {
    const id = await newConversation()
    const answering = ask(server, id, '!values 1000000\n!values 1000000\n!values 1000000\n!say the end')
    expect((await server.call('/about')).status).toBe(200)
    expect(finalOf(await answering).response_text).toBe('the end')
  })
})
