import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { questionText } from '../../src/cli/ask.ts'
import { createClient } from '../../src/client/index.ts'
import { calls, type ModelServer, type Part, startModelServer } from '../support/model-server.ts'
import { allFrames, approve, frameWhen, ofKind } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const HIDDEN = 'touch hidden.txt'

describe('approvals', () => {
  let server: TestServer
  let model: ModelServer
  const parts: Part[] = []

  beforeAll(async () => {
    model = await startModelServer(parts)
    server = await startTestServer({ baseUrl: model.url, apiKey: 'k', tools: { write_to_file: 'ask' } })
  })
  afterAll(async () => {
    await server.close()
    await model.close()
  })

  async function asked(name: string, args: unknown) {
    parts.push({ events: calls(name, args) })
    const { id } = await server.client.createConversation()
    const { run_id } = await server.client.sendMessage(id, { content: 'go' })
    const { tool_call_id } = await frameWhen(server, id, 'tool.approval')
    const question = await server.client.question(id, run_id, tool_call_id)
    return { id, run_id, tool_call_id, question }
  }

  it('[T5] shows a command of any length in full and runs exactly that', async () => {
    const command = `true ${'#'.repeat(4000)}\n${HIDDEN}`
    const { id, run_id, tool_call_id, question } = await asked('run_command', { command })
    expect(JSON.parse(question.arguments).command).toBe(command)
    expect(questionText(question)).toContain(HIDDEN)
    await approve(server.client, id, run_id, tool_call_id)
    await frameWhen(server, id, 'final')
  })

  it('[T5] reveals text hidden by blanks, newlines and invisible characters in the terminal', async () => {
    const command = `ls${' '.repeat(3000)};${'\n'.repeat(300)}\u001b[2J\u202e${HIDDEN}`
    const { id, question } = await asked('run_command', { command })
    const shown = questionText(question)
    expect(shown).toContain(HIDDEN)
    expect(shown.split('\n').length).toBeLessThan(20)
    expect(shown).toContain('⟨3000 blanks⟩')
    expect(shown).toContain('⟨U+202E⟩')
    expect(shown).not.toContain('\u001b[2J')
    await server.client.stop(id)
  })

  it('[T5] never lets a rule for first words allow a second command', async () => {
    const { id, run_id, tool_call_id } = await asked('run_command', { command: 'echo one' })
    await approve(server.client, id, run_id, tool_call_id, {
      always: { match: 'prefix', scope: 'workspace' },
    })
    await frameWhen(server, id, 'final')
    for (const command of ['echo two; touch no.txt', 'echo two\ntouch no.txt', 'echo $(touch no.txt)']) {
      const { id: next, question } = await asked('run_command', { command })
      expect(question.prefix).toBeNull()
      await server.client.stop(next)
    }
    parts.push({ events: calls('run_command', { command: 'echo three' }) })
    const { id: allowed } = await server.client.createConversation()
    await server.client.sendMessage(allowed, { content: 'go' })
    await frameWhen(server, allowed, 'final')
    const [approval] = ofKind(await allFrames(server, allowed), 'tool.approval')
    expect(approval).toMatchObject({ status: 'approved', rule_id: expect.stringMatching(/^rule_/) as string })
    for (const rule of (await server.client.rules()).items) await server.client.removeRule(rule.rule_id)
  })

  it('[T5] changes nothing in a conversation that is read only, and asks nothing in one that edits freely', async () => {
    const { id: plan } = await server.client.createConversation({ mode: 'read_only' })
    for (const [name, args] of [
      ['run_command', { command: 'touch no.txt' }],
      ['write_to_file', { path: 'no.txt', content: 'x' }],
    ] as const) {
      parts.push({ events: calls(name, args) })
      await server.client.sendMessage(plan, { content: 'go' })
    }
    await frameWhen(server, plan, 'final')
    await expect.poll(async () => ofKind(await allFrames(server, plan), 'final').length).toBe(2)
    const frames = await allFrames(server, plan)
    expect(ofKind(frames, 'tool.approval')).toEqual([])
    expect(ofKind(frames, 'file.edit')).toEqual([])
    expect(ofKind(frames, 'tool.output').map(({ output }) => output)).toEqual([
      expect.stringMatching(/read only/),
      expect.stringMatching(/read only/),
    ])
    const offered = model.requests.at(-1)?.tools.map(({ name }) => name)
    expect(offered).not.toContain('run_command')

    const { id: free } = await server.client.createConversation({ mode: 'edit' })
    parts.push({ events: calls('write_to_file', { path: 'yes.txt', content: 'x' }) })
    parts.push({ events: calls('run_command', { command: 'cat yes.txt' }) })
    await server.client.sendMessage(free, { content: 'go' })
    await frameWhen(server, free, 'final')
    expect(ofKind(await allFrames(server, free), 'tool.approval')).toEqual([])

    const token = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const weak = createClient({ url: server.url, token })
    await expect(weak.changeConversation(plan, { mode: 'edit' })).rejects.toMatchObject({
      code: 'missing_scope',
    })
  })

  it('[T5] shows values redacted in frames only to tokens that may approve', async () => {
    const { id, run_id, tool_call_id, question } = await asked('write_to_file', {
      path: 'x.json',
      content: 'x',
      api_key: 'sk-in-the-question',
    })
    expect(question.arguments).toContain('sk-in-the-question')
    expect(JSON.stringify(await allFrames(server, id))).not.toContain('sk-in-the-question')
    const reader = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const path = `/conversations/${id}/runs/${run_id}/approvals/${tool_call_id}`
    expect((await server.call(path, { headers: { Authorization: `Bearer ${reader}` } })).status).toBe(403)
    await server.client.stop(id)
  })

  it('[T5] rejects a call that is too long to read, without asking', async () => {
    parts.push({ events: calls('run_command', { command: `true ${'#'.repeat(150_000)}` }) })
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: 'go' })
    await frameWhen(server, id, 'final')
    const frames = await allFrames(server, id)
    expect(ofKind(frames, 'tool.approval')).toEqual([])
    expect(ofKind(frames, 'tool.output')[0]?.output).toContain('too long to be shown')
  })

  it('[T5] rejects an approval that names another question or none', async () => {
    const one = await asked('run_command', { command: 'echo one' })
    const other = await asked('run_command', { command: 'echo other' })
    const body = { tool_call_id: one.tool_call_id, approved: true }
    await expect(server.client.answerApproval(one.id, one.run_id, body)).rejects.toMatchObject({
      code: 'invalid_request',
    })
    const { question_sha256 } = other.question
    await expect(
      server.client.answerApproval(one.id, one.run_id, { ...body, question_sha256 }),
    ).rejects.toMatchObject({ code: 'approval_not_pending' })
    for (const { id } of [one, other]) await server.client.stop(id)
  })
})
