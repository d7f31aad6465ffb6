import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { questionText } from '../../src/cli/ask.ts'
import { calls, type ModelServer, type Part, startModelServer } from '../support/model-server.ts'
import { allFrames, approve, frameWhen, ofKind } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const HIDDEN = 'touch hidden.txt'

describe('what is approved is what runs', () => {
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

  it('[T5] shows a command of any length whole, and runs what was shown', async () => {
    const command = `true ${'#'.repeat(4000)}\n${HIDDEN}`
    const { id, run_id, tool_call_id, question } = await asked('run_command', { command })
    expect(JSON.parse(question.arguments).command).toBe(command)
    expect(questionText(question)).toContain(HIDDEN)
    await approve(server.client, id, run_id, tool_call_id)
    await frameWhen(server, id, 'final')
  })

  it('[T5] blanks, lines and invisible characters hide nothing in the terminal', async () => {
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

  it('[T5] what frames redact is shown to those who may approve, and to no one else', async () => {
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

  it('[T5] a call that is too long to be read is not asked about, and does not run', async () => {
    parts.push({ events: calls('run_command', { command: `true ${'#'.repeat(150_000)}` }) })
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: 'go' })
    await frameWhen(server, id, 'final')
    const frames = await allFrames(server, id)
    expect(ofKind(frames, 'tool.approval')).toEqual([])
    expect(ofKind(frames, 'tool.output')[0]?.output).toContain('too long to be shown')
  })

  it('[T5] a yes to another question, or to none, is refused', async () => {
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
