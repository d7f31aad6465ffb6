import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, finalOf, framesIn, frameWhen } from '../../../test/support/runs.ts'
import { jsonBody, startTestServer, type TestServer } from '../../../test/support/server.ts'
import { newId } from '../../protocol/ids.ts'

describe('the stream of a run', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const streamed = (id: string, content: string, headers: Record<string, string> = {}) => {
    const init = jsonBody({ content })
    return server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...init.headers, Accept: 'text/event-stream', ...headers },
    })
  }

  it('ends when its conversation is deleted while it waits, without affecting other conversations', async () => {
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: '!wait 50\n!say 1000' })
    const waiting = await streamed(id, 'after it')
    await server.client.deleteConversation(id)
    expect(await waiting.text()).toMatch(/event: (removed|problem)/)
    const other = await server.client.createConversation()
    expect(finalOf(await ask(server, other.id, 'hello')).status).toBe('completed')
  })

  it('ends when its run is cut while it waits for approval, and the next message starts', async () => {
    const { id } = await server.client.createConversation()
    const waiting = await streamed(id, '!run_command {"command":"true"}')
    await frameWhen(server, id, 'tool.approval')
    await server.client.sendMessage(id, { content: 'I wait' })
    await server.ledger.deleteMessages({
      tenant: 'default',
      conversationId: id as never,
      at: { after: 1 },
      newSegmentId: newId('seg'),
      by: 'me',
    })
    expect(await waiting.text()).toContain('event: abandoned')
    await server.client.sendMessage(id, { content: 'I am next' })
    expect((await frameWhen(server, id, 'final')).final.response_text).toContain('Hello next')
  })

  it('repeats a finished run in full when its message is sent again', async () => {
    const { id } = await server.client.createConversation()
    const key = { 'Idempotency-Key': newId('msg') }
    const first = framesIn(await (await streamed(id, '!wait 1\n!say 800', key)).text())
    const slow = await streamed(id, '!wait 1\n!say 800', key)
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(framesIn(await slow.text())).toEqual(first)
  })

  it('asks a person with the scope to approve when the sender may not change files', async () => {
    const token = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const { id } = await server.client.createConversation()
    const init = jsonBody({
      content: '!read_file {"path":"none"}\n!write_to_file {"path":"x.txt","content":"x"}',
    })
    await server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...init.headers, Authorization: `Bearer ${token}` },
    })
    expect(await frameWhen(server, id, 'tool.approval')).toMatchObject({ tool_name: 'write_to_file' })
    await server.client.stop(id)
  })
})
