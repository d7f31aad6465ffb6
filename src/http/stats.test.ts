import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ask, ofKind } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

describe('statistics', () => {
  let server: TestServer
  let id: string
  beforeEach(async () => {
    server = await startTestServer({ tools: { run_command: 'allow' } })
    id = (await server.client.createConversation({ title: 'Counted' })).id
  })
  afterEach(() => server.close())

  it('count tokens, calls, failures, edits and compactions, by day, conversation, model, agent and tool', async () => {
    const calls = [
      '!write_to_file {"path":"a.txt","content":"a"}',
      '!run_command {"command":"sleep 0.3; exit 3"}',
    ]
    const frames = await ask(server, id, ['work', ...calls].join('\n'))
    const usage = ofKind(frames, 'final')[0]?.final.usage
    await server.client.shortenMemory(id, { strategy: 'trim' })
    await ask(server, id, 'go on')
    const stats = await server.client.stats()
    expect(stats.is_partial).toBe(false)
    expect(stats.totals).toMatchObject({ runs: 2, calls: 2, failed_calls: 1, edits: 1, files: 1 })
    expect(stats.totals.input_tokens).toBeGreaterThan(usage?.input_tokens ?? 0)
    expect(stats.totals.tool_seconds).toBeGreaterThan(0.25)
    expect(stats.totals.model_seconds).toBeGreaterThan(0)
    expect(stats.by_day).toMatchObject([{ day: new Date().toISOString().slice(0, 10), runs: 2 }])
    expect(stats.by_conversation).toMatchObject([{ conversation_id: id, title: 'Counted', calls: 2 }])
    expect(stats.by_agent).toMatchObject([{ agent: 'waymark', runs: 2 }])
    expect(stats.by_model).toHaveLength(1)
    for (const group of [stats.by_day, stats.by_conversation, stats.by_model, stats.by_agent]) {
      expect(group.reduce((sum, one) => sum + one.input_tokens, 0)).toBe(stats.totals.input_tokens)
    }
    expect(stats.tools).toMatchObject([
      { tool: 'run_command', calls: 1, failed: 1 },
      { tool: 'write_to_file', calls: 1, failed: 0 },
    ])
    for (const one of stats.compactions) expect(one).toMatchObject({ conversation_id: id, strategy: 'trim' })
  })

  it('count only the requested period and conversation, and no deleted conversations', async () => {
    await ask(server, id, 'hello')
    const other = (await server.client.createConversation()).id
    await ask(server, other, 'hello')
    expect((await server.client.stats()).totals.runs).toBe(2)
    expect((await server.client.stats({ conversation_id: id })).totals.runs).toBe(1)
    expect((await server.client.stats({ until: '2020-01-01T00:00:00.000Z' })).totals.runs).toBe(0)
    await server.client.deleteConversation(other)
    expect((await server.client.stats()).totals.runs).toBe(1)
    await expect(server.client.stats({ since: 'yesterday' })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })
})
