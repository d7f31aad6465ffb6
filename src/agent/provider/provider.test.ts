import { afterEach, describe, expect, it } from 'vitest'
import {
  calls,
  type ModelServer,
  type Part,
  response,
  says,
  startModelServer,
} from '../../../test/support/model-server.ts'
import { ModelFailure } from '../../core/agent.ts'
import { createRunRecord } from '../../core/run-record.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { createProvider } from './provider.ts'

let server: ModelServer
afterEach(() => server.close())

/** Makes one call to the model and returns the frames it wrote. */
async function respond(parts: Part[], signal = new AbortController().signal) {
  server = await startModelServer(parts)
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
  const provider = createProvider({ baseUrl: server.url, apiKey: 'sk-test', firstWaitMs: 1 })
  const request = { model: 'm', input: [{ role: 'user' as const, content: 'hi' }] }
  const outcome = await provider.respond({ request, writer, record, signal }).then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  )
  return { frames, record, ...outcome } as {
    frames: FrameDraft[]
    record: typeof record
    result?: Awaited<ReturnType<typeof provider.respond>>
    error?: ModelFailure
  }
}

const retries = (frames: FrameDraft[]) =>
  frames.filter((frame) => frame.kind === 'lifecycle').map((frame) => frame.reason)

describe('the provider', () => {
  it('[R5] retries temporary failures visibly: rate limits, server errors and lost connections', async () => {
    const { frames, result, record } = await respond([
      {
        status: 429,
        headers: { 'Retry-After': '0.01' },
        body: { error: { message: 'Slow down', code: 'rate_limit_exceeded' } },
      },
      { status: 503 },
      { events: says('half an answer').slice(0, 3), breaksOff: true },
      { events: says('whole') },
    ])
    expect(result).toMatchObject({ status: 'completed' })
    expect(server.requests).toHaveLength(4)
    expect(retries(frames)).toEqual([
      expect.stringMatching(/429.*Slow down.*Retrying in .* s \(2 of 4\)/),
      expect.stringMatching(/503.*\(3 of 4\)/),
      expect.stringMatching(/\(4 of 4\)/),
    ])
    // Interrupted items are closed, and the answer is that of the last attempt.
    expect(record.openItems()).toEqual([])
    expect(record.said().text).toBe('whole')
  })

  it('[R5] gives up after four attempts with a retryable error', async () => {
    const { error } = await respond(Array.from({ length: 9 }, () => ({ status: 500 })))
    expect(error).toBeInstanceOf(ModelFailure)
    expect(error).toMatchObject({ code: 'http_500', isRetryable: true })
    expect(server.requests).toHaveLength(4)
  })

  it.each([
    [400, 'bad_request', false],
    [401, 'invalid_api_key', false],
    [404, 'model_not_found', false],
    [429, 'insufficient_quota', false],
  ])('does not retry %i %s', async (status, code, isRetryable) => {
    const { error } = await respond([{ status, body: { error: { message: 'No.', code } } }])
    expect(error).toMatchObject({ code, isRetryable })
    expect(server.requests).toHaveLength(1)
  })

  it('[R5] retries a response that fails in its stream if the error is temporary', async () => {
    const failing = (code: string): Part => ({
      events: [
        ...response([]).slice(0, 1),
        { type: 'response.failed', response: { id: 'r', status: 'failed', error: { code, message: 'Oh.' } } },
      ],
    })
    expect((await respond([failing('server_error'), { events: says('ok') }])).result).toBeDefined()
    expect(server.requests).toHaveLength(2)
    await server.close()
    expect((await respond([failing('invalid_prompt')])).error).toMatchObject({
      code: 'invalid_prompt',
      isRetryable: false,
    })
  })

  it('treats an address without a server as a retryable failure', async () => {
    server = await startModelServer([])
    await server.close()
    const provider = createProvider({ baseUrl: server.url, apiKey: null, attempts: 1 })
    const writer = { write() {}, flush: async () => {}, room: () => undefined }
    const call = {
      request: { model: 'm', input: [{ role: 'user', content: 'x' }] },
      writer,
      record: createRunRecord(),
      signal: new AbortController().signal,
    }
    await expect(provider.respond(call)).rejects.toMatchObject({
      code: 'connection_failed',
      isRetryable: true,
    })
    server = await startModelServer([])
  })

  it('stops at once when aborted, both mid-stream and while waiting to retry', async () => {
    const stop = new AbortController()
    setTimeout(() => stop.abort(new Error('stopped')), 100)
    const { error } = await respond([{ events: says('begun').slice(0, 3), hangs: true }], stop.signal)
    expect(error).toMatchObject({ message: 'stopped' })
    await server.close()
    const again = new AbortController()
    setTimeout(() => again.abort(new Error('stopped')), 100)
    const waiting = await respond([{ status: 429, headers: { 'Retry-After': '19' } }], again.signal)
    expect(waiting.error).toMatchObject({ message: 'stopped' })
  })

  it('truncates arguments and redacts their secrets, in every delta', async () => {
    const args = { path: 'a.txt', content: 'x'.repeat(20_000), password: 'hunter2' }
    const { frames, result } = await respond([{ events: calls('write_to_file', args, 'call_1') }])
    const shown = frames
      .flatMap((frame) => (frame.kind === 'tool.arguments.delta' ? frame.delta : []))
      .join('')
    const done = frames.find((frame) => frame.kind === 'tool.arguments.done')
    expect(shown).toBe(done?.arguments_text)
    expect(shown).toHaveLength(8000)
    expect(done?.arguments_json).toEqual({ path: 'a.txt', content: 'x'.repeat(4000), password: '<redacted>' })
    expect(done?.notices?.map((notice) => `${notice.type} ${notice.path}`)).toEqual([
      'redacted arguments_json.password',
      'truncated arguments_json.content',
      'truncated arguments_text',
    ])
    // The tool itself gets the full arguments.
    expect(JSON.parse(result?.calls[0]?.arguments ?? '')).toEqual(args)
    expect(JSON.stringify(frames)).not.toContain('hunter2')
  })
})
