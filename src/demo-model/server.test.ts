import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type DemoModel, startDemoModel } from './server.ts'

const EXPIRY_MS = 400

let model: DemoModel
let client: OpenAI
beforeAll(async () => {
  model = await startDemoModel({ expiryMs: EXPIRY_MS })
  client = new OpenAI({ baseURL: model.url, apiKey: 'none', maxRetries: 0 })
})
afterAll(() => model.close())

const ask = (input: OpenAI.Responses.ResponseCreateParams['input'], more: object = {}) =>
  client.responses.create({ model: 'demo', input: input ?? '', ...more })

describe('the demo model', () => {
  it('answers only from the context in the request', async () => {
    expect((await ask('what is my name')).output_text).toMatch(/do not know/)
    const context = [
      { role: 'user' as const, content: 'I am devansh' },
      { role: 'assistant' as const, content: 'Hello.' },
      { role: 'user' as const, content: "What's my name?" },
    ]
    expect((await ask(context)).output_text).toBe('Your name is devansh.')
  })

  it('continues from a stored response until it expires', async () => {
    const first = await ask('my name is Ada')
    const second = await ask('what is my name', { previous_response_id: first.id })
    expect(second.output_text).toBe('Your name is Ada.')
    expect((await client.responses.retrieve(second.id)).id).toBe(second.id)
    await new Promise((resolve) => setTimeout(resolve, EXPIRY_MS))
    await expect(ask('what is my name', { previous_response_id: second.id })).rejects.toMatchObject({
      status: 404,
      code: 'previous_response_not_found',
    })
    const forgotten = await ask('hi', { store: false })
    await expect(ask('and?', { previous_response_id: forgotten.id })).rejects.toMatchObject({ status: 404 })
  })

  it('calls the requested tools one after the other, then reports the last result', async () => {
    const message = { role: 'user' as const, content: '!read_file {"path":"a"}\n!list_files' }
    const tools = [{ type: 'function' as const, name: 'read_file', parameters: {}, strict: false }]
    const first = await ask([message], { tools })
    expect(first.output).toMatchObject([
      { type: 'function_call', name: 'read_file', arguments: '{"path":"a"}' },
    ])
    const [call] = first.output as [OpenAI.Responses.ResponseFunctionToolCall]
    const outcome = (text: string, id: string) => ({
      type: 'function_call_output' as const,
      call_id: id,
      output: text,
    })
    const second = await ask([outcome('text of a', call.call_id)], { previous_response_id: first.id, tools })
    expect(second.output).toMatchObject([{ type: 'function_call', name: 'list_files', arguments: '{}' }])
    const [next] = second.output as [OpenAI.Responses.ResponseFunctionToolCall]
    const third = await ask([outcome('a\nb', next.call_id)], { previous_response_id: second.id, tools })
    expect(third.output_text).toBe('Done: 2 calls. The last one returned: a')
  })

  it('streams words and reasoning summaries, with a pause between words on request', async () => {
    const stream = await ask('!say 5\n!think 3\n!wait 5', { stream: true })
    const events: string[] = []
    for await (const event of stream as unknown as AsyncIterable<{ type: string; sequence_number: number }>) {
      expect(event.sequence_number).toBe(events.length)
      events.push(event.type)
    }
    expect(events.filter((type) => type === 'response.output_text.delta')).toHaveLength(5)
    expect(events.filter((type) => type === 'response.reasoning_summary_text.delta')).toHaveLength(3)
    expect(events.at(-1)).toBe('response.completed')
  })

  it('fails on request with the errors of a real provider', async () => {
    expect(await ask('!fail')).toMatchObject({ status: 'failed', error: { code: 'server_error' } })
    await expect(ask('!fail 429')).rejects.toMatchObject({ status: 429 })
  })
})
