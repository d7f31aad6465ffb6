import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createRunRecord } from '../../core/run-record.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { ModelRequest, ProtocolName } from './protocol.ts'
import { createProvider } from './provider.ts'

/** Streams as real servers send them, with their deviations from the API's documents. */

const request: ModelRequest = { model: 'm', input: [{ role: 'user', content: 'go' }] }

/** Serves these events, and returns the frames, the result and the body of the request. */
async function play(protocol: ProtocolName, events: readonly object[], asked: ModelRequest = request) {
  let body = ''
  const server = createServer((incoming, answer) => {
    void (async () => {
      for await (const chunk of incoming as AsyncIterable<Buffer>) body += chunk.toString()
      answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const event of events) {
        const name = 'type' in event ? `event: ${String(event.type)}\n` : ''
        answer.write(`${name}data: ${JSON.stringify(event)}\n\n`)
      }
      answer.end(protocol === 'chat-completions' ? 'data: [DONE]\n\n' : '')
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const frames: FrameDraft[] = []
  const record = createRunRecord()
  const writer = {
    write(...written: FrameDraft[]) {
      for (const frame of written) record.note(frame)
      frames.push(...written)
    },
    flush: async () => {},
    room: () => undefined,
  }
  const provider = createProvider({ baseUrl, apiKey: null, protocol, attempts: 1 })
  const { signal } = new AbortController()
  const result = await provider
    .respond({ request: asked, writer, record, signal })
    .catch((e: unknown) => e as Error)
  server.close()
  return { frames, result, body: JSON.parse(body) as Record<string, unknown> }
}

const callsIn = (result: unknown) =>
  (result as { calls: { name: string; arguments: string; callId: string }[] }).calls.map((call) => [
    call.name,
    call.arguments,
  ])
const textIn = (frames: readonly FrameDraft[]) =>
  frames.flatMap((frame) => (frame.kind === 'message.delta' ? frame.delta : [])).join('')

describe('a stream of Chat Completions', () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: 'c1',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  const call = (fields: object) => chunk({ tool_calls: [fields] })

  it('joins the pieces of calls by their index', async () => {
    const { result } = await play('chat-completions', [
      chunk({ role: 'assistant', content: null }),
      call({ index: 0, id: 'a', function: { name: 'f', arguments: '' } }),
      call({ index: 0, function: { arguments: '{"x":' } }),
      call({ index: 1, id: 'b', function: { name: 'g', arguments: '{}' } }),
      call({ index: 0, function: { arguments: '1}' } }),
      chunk({}, 'tool_calls'),
    ])
    expect(callsIn(result)).toEqual([
      ['f', '{"x":1}'],
      ['g', '{}'],
    ])
  })

  it('tells calls apart that all have index 0, as older Ollama sends them', async () => {
    const { result } = await play('chat-completions', [
      call({ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }),
      call({ index: 0, id: 'b', type: 'function', function: { name: 'f', arguments: '{"x":2}' } }),
      chunk({}, 'tool_calls'),
    ])
    expect(callsIn(result)).toEqual([
      ['f', '{"x":1}'],
      ['f', '{"x":2}'],
    ])
  })

  it('accepts calls without an index, in pieces, that end with stop, and sends their signatures back, as Gemini does', async () => {
    const signature = { google: { thought_signature: 'abc' } }
    const { result } = await play('chat-completions', [
      call({
        id: 'a',
        type: 'function',
        function: { name: 'f', arguments: '{"x"' },
        extra_content: signature,
      }),
      call({ function: { arguments: ':1}' } }),
      call({ id: 'b', type: 'function', function: { name: 'g', arguments: '{}' } }),
      chunk({}, 'stop'),
    ])
    expect(callsIn(result)).toEqual([
      ['f', '{"x":1}'],
      ['g', '{}'],
    ])
    const input = [...request.input, ...(result as { output: object[] }).output]
    const sentTo = async (model: string) => {
      const { body } = await play('chat-completions', [chunk({ content: 'ok' }, 'stop')], { model, input })
      const messages = body.messages as { tool_calls?: { extra_content?: unknown }[] }[]
      return messages.flatMap(({ tool_calls = [] }) => tool_calls.map((one) => one.extra_content ?? null))
    }
    expect(await sentTo('gemini-3')).toEqual([signature, null])
    expect(await sentTo('other')).toEqual([null, null])
  })

  it('shows reasoning from either field, and sends it back before a call in the field that requires it', async () => {
    const { frames, result } = await play('chat-completions', [
      chunk({ reasoning_content: 'I must ' }),
      chunk({ reasoning_content: 'call f.' }),
      call({ index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }),
      chunk({}, 'tool_calls'),
    ])
    expect(frames.flatMap((frame) => (frame.kind === 'reasoning_summary.delta' ? frame.delta : []))).toEqual([
      'I must ',
      'call f.',
    ])
    const input = [
      ...request.input,
      ...(result as { output: object[] }).output,
      { type: 'function_call_output', call_id: 'a', output: 'done' },
    ]
    const { body } = await play('chat-completions', [chunk({ content: 'ok' }, 'stop')], { model: 'm', input })
    expect(body.messages).toMatchObject([
      { role: 'user', content: 'go' },
      { role: 'assistant', reasoning_content: 'I must call f.', tool_calls: [{ id: 'a' }] },
      { role: 'tool', tool_call_id: 'a', content: 'done' },
    ])
    const other = await play('chat-completions', [chunk({ reasoning: 'hm', content: 'ok' }, 'stop')])
    expect(
      other.frames.some((frame) => frame.kind === 'reasoning_summary.delta' && frame.delta === 'hm'),
    ).toBe(true)
    expect(textIn(other.frames)).toBe('ok')
  })

  it('counts tokens from a last chunk without choices, cached ones and the cost included', async () => {
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 15,
      prompt_cache_hit_tokens: 8,
      cost: 0.002,
    }
    const { result } = await play('chat-completions', [
      chunk({ content: 'ok' }, 'stop'),
      { id: 'c1', choices: [], usage },
    ])
    expect(result).toMatchObject({ usage: { input: 10, output: 5, total: 15, cached: 8, cost: 0.002 } })
  })

  it('[R5] takes an answer that ends without a reason for one that broke off', async () => {
    const { result } = await play('chat-completions', [chunk({ content: 'half' })])
    expect(result).toMatchObject({ code: 'stream_broken', isRetryable: true })
  })

  it('reports an answer that was cut off or filtered as incomplete, and a refusal as one', async () => {
    expect((await play('chat-completions', [chunk({ content: 'x' }, 'length')])).result).toMatchObject({
      status: 'incomplete',
      reason: 'max_output_tokens',
    })
    expect((await play('chat-completions', [chunk({}, 'content_filter')])).result).toMatchObject({
      status: 'incomplete',
      reason: 'content_filter',
    })
    const { frames } = await play('chat-completions', [chunk({ refusal: 'No.' }, 'stop')])
    expect(frames.find((frame) => frame.kind === 'refusal.done')).toMatchObject({ refusal_text: 'No.' })
  })

  it('[L10] ignores fields and reasons that no version knows', async () => {
    const { frames, result } = await play('chat-completions', [
      chunk({ content: 'ok', annotations: [], images: [{}], weird: { deep: [1] } }),
      chunk({}, 'something_new'),
    ])
    expect(textIn(frames)).toBe('ok')
    expect(result).toMatchObject({ status: 'completed' })
  })
})

describe('a stream of Anthropic Messages', () => {
  const start = (content: object[] = []) => ({
    type: 'message_start',
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content,
      usage: { input_tokens: 3, output_tokens: 1 },
    },
  })
  const end = (stop_reason: string) => [
    { type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 7 } },
    { type: 'message_stop' },
  ]
  const block = (index: number, content_block: object, deltas: object[] = []) => [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
  const text = (index: number, said: string) =>
    block(index, { type: 'text', text: '' }, [{ type: 'text_delta', text: said }])

  it('sends thinking back as it came, with its signature, before the call it led to', async () => {
    const thinking = { type: 'thinking', thinking: 'hm, f', signature: 'sig' }
    const redacted = { type: 'redacted_thinking', data: 'xyz' }
    const { result } = await play('anthropic', [
      start(),
      ...block(0, { type: 'thinking', thinking: '', signature: '' }, [
        { type: 'thinking_delta', thinking: 'hm, ' },
        { type: 'thinking_delta', thinking: 'f' },
        { type: 'signature_delta', signature: 'sig' },
      ]),
      ...block(1, redacted),
      ...block(2, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }, [
        { type: 'input_json_delta', partial_json: '' },
        { type: 'input_json_delta', partial_json: '{"x":1}' },
      ]),
      ...end('tool_use'),
    ])
    expect(callsIn(result)).toEqual([['f', '{"x":1}']])
    const input = [
      ...request.input,
      ...(result as { output: object[] }).output,
      { type: 'function_call_output', call_id: 'toolu_1', output: 'done' },
    ]
    const { body } = await play('anthropic', [start(), ...text(0, 'ok'), ...end('end_turn')], {
      model: 'm',
      input,
    })
    expect(body.messages).toMatchObject([
      { role: 'user', content: [{ type: 'text', text: 'go' }] },
      {
        role: 'assistant',
        content: [thinking, redacted, { type: 'tool_use', id: 'toolu_1', input: { x: 1 } }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'done' }] },
    ])
  })

  it('joins texts that citations split, and keeps the citations', async () => {
    const citation = { type: 'web_search_result_location', url: 'https://a', title: 'A', cited_text: 'a' }
    const { frames } = await play('anthropic', [
      start(),
      ...text(0, 'It is '),
      ...block(1, { type: 'text', text: '', citations: [] }, [
        { type: 'text_delta', text: 'blue' },
        { type: 'citations_delta', citation },
      ]),
      ...text(2, '.'),
      ...end('end_turn'),
    ])
    expect(textIn(frames)).toBe('It is blue.')
    expect(frames.filter((frame) => frame.kind === 'output_item.added')).toHaveLength(1)
    expect(frames.find((frame) => frame.kind === 'message.citation')).toMatchObject({
      citation: { type: 'web_search_result_location', url: 'https://a' },
    })
  })

  it('shows a tool that the server ran with its result, and sends both back', async () => {
    const call = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'sky' } }
    const found = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [{ type: 'web_search_result', url: 'https://a' }],
    }
    const { frames, result } = await play('anthropic', [
      start(),
      ...block(0, { ...call, input: {} }, [{ type: 'input_json_delta', partial_json: '{"query":"sky"}' }]),
      ...block(1, found),
      ...text(2, 'Blue.'),
      ...end('end_turn'),
    ])
    const statuses = frames.flatMap((frame) => (frame.kind === 'tool.status' ? frame.tool.status : []))
    expect(statuses.at(-1)).toBe('completed')
    expect(frames.find((frame) => frame.kind === 'tool.output')).toMatchObject({ output: found.content })
    expect(callsIn(result)).toEqual([])
    const input = [...request.input, ...(result as { output: object[] }).output]
    const { body } = await play('anthropic', [start(), ...text(0, 'ok'), ...end('end_turn')], {
      model: 'm',
      input,
    })
    expect(body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [call, found, { text: 'Blue.' }] },
    ])
  })

  it.each([
    ['end_turn', 'completed', null],
    ['stop_sequence', 'completed', null],
    ['max_tokens', 'incomplete', 'max_output_tokens'],
    ['model_context_window_exceeded', 'incomplete', 'context_window_exceeded'],
    ['pause_turn', 'incomplete', 'pause_turn'],
    ['refusal', 'completed', null],
    ['a_new_reason', 'completed', null],
  ])('ends with %s as %s', async (reason, status, why) => {
    const { frames, result } = await play('anthropic', [start(), ...text(0, 'x'), ...end(reason)])
    expect(result).toMatchObject({ status, reason: why })
    expect(frames.some((frame) => frame.kind === 'refusal.done')).toBe(reason === 'refusal')
  })

  it('[L10] accepts a start that comes twice or has content, and events and blocks that no version knows', async () => {
    const { frames, result } = await play('anthropic', [
      start([{ type: 'tool_use', id: 'toolu_1', name: 'f', input: { x: 1 } }]),
      start(),
      { type: 'something_new', data: 1 },
      ...block(1, { type: 'a_new_block', id: 'b1', data: 'x' }, [{ type: 'a_new_delta', y: 1 }]),
      ...text(2, 'ok'),
      ...end('tool_use'),
    ])
    expect(callsIn(result)).toEqual([['f', '{"x":1}']])
    expect(textIn(frames)).toBe('ok')
  })

  it('[T7] limits what no frame shows', async () => {
    const flood = Array.from({ length: 30 }, () => ({
      type: 'signature_delta',
      signature: 's'.repeat(100_000),
    }))
    const thought = { type: 'thinking', thinking: '', signature: '' }
    expect((await play('anthropic', [start(), ...block(0, thought, flood)])).result).toMatchObject({
      code: 'answer_too_large',
    })
    const opened = Array.from({ length: 3000 }, (_, index) => ({
      type: 'content_block_start',
      index,
      content_block: { type: 'text', text: '' },
    }))
    expect((await play('anthropic', [start(), ...opened])).result).toMatchObject({ code: 'answer_too_large' })
  })

  it.each([
    [{ type: 'content_block_start', index: 0, content_block: null }],
    [{ type: 'content_block_start', index: 0 }],
    [{ type: 'message_start' }],
    [{ type: 'message_start', message: null }],
    [{ type: 'message_delta' }],
  ])('[T7] blames the server for %j', async (event) => {
    expect((await play('anthropic', [start(), event])).result).toMatchObject({ code: 'malformed_stream' })
  })

  it('[T7] takes no type for a property of every object', async () => {
    const { result } = await play('anthropic', [
      start(),
      ...block(0, { type: 'constructor', id: 'x' }),
      { type: 'toString' },
      ...text(1, 'ok'),
      ...end('end_turn'),
    ])
    expect(result).toMatchObject({ status: 'completed' })
  })

  it('counts cached tokens as input', async () => {
    const usage = {
      input_tokens: 5,
      cache_read_input_tokens: 90,
      cache_creation_input_tokens: 5,
      output_tokens: 1,
    }
    const message = { ...start().message, usage }
    const { result } = await play('anthropic', [
      { type: 'message_start', message },
      ...text(0, 'x'),
      ...end('end_turn'),
    ])
    expect(result).toMatchObject({ usage: { input: 100, cached: 90, output: 7 } })
  })

  it.each([
    ['overloaded_error', true],
    ['invalid_request_error', false],
  ])('[R5] fails with %s inside the answer', async (type, isRetryable) => {
    const { result } = await play('anthropic', [start(), { type: 'error', error: { type, message: 'no' } }])
    expect(result).toMatchObject({ code: type, isRetryable })
  })
})
