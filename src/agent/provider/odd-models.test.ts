import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  calls,
  functionCall,
  type Part,
  response,
  startModelServer,
} from '../../../test/support/model-server.ts'
import { ask, finalOf, ofKind } from '../../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../../test/support/server.ts'
import type { AnyFrame } from '../../protocol/frames.ts'

describe('misbehaving models', () => {
  /** Sends one message to a server with this model, checks the frames, and returns the requests to the model. */
  async function play(
    parts: Part[],
    check: (seen: { frames: AnyFrame[]; server: TestServer }) => Promise<void> | void,
  ) {
    const model = await startModelServer(parts)
    const server = await startTestServer({ baseUrl: model.url })
    const { id } = await server.client.createConversation()
    const frames = await ask(server, id, 'go')
    await check({ frames, server })
    await server.close()
    await model.close()
    return model.requests
  }

  it('[L6] treats a call id that repeats within a run as two calls', async () => {
    const requests = await play(
      [
        { events: calls('write_to_file', { path: 'a.txt', content: 'a' }, 'call_0') },
        { events: calls('write_to_file', { path: 'b.txt', content: 'b' }, 'call_0') },
      ],
      async ({ frames, server }) => {
        expect(await readFile(join(server.config.project, 'b.txt'), 'utf8')).toBe('b')
        const ids = ofKind(frames, 'tool.output').map((frame) => frame.tool_call_id)
        expect(ids[0]).toBe('call_0')
        expect(new Set(ids).size).toBe(2)
      },
    )
    // Each request after a call continues from it, and answers it by its own id.
    const answered = requests.flatMap(({ input }) =>
      input.flatMap((item) => (item.type === 'function_call_output' ? item.call_id : [])),
    )
    expect(answered[0]).toBe('call_0')
    expect(new Set(answered).size).toBe(2)
  })

  it('runs only the first two of identical calls in one response', async () => {
    const args = { path: 'missing.txt' }
    const events = response(
      [0, 1, 2].flatMap((index) => functionCall(index, 'read_file', args, `call_${index}`)),
    )
    await play([{ events }], ({ frames }) => {
      const outputs = ofKind(frames, 'tool.output').map((frame) => String(frame.output))
      expect(outputs.map((text) => text.includes('made twice'))).toEqual([false, false, true])
    })
  })

  it('runs a call whose item never ends with the arguments received', async () => {
    const whole = functionCall(0, 'list_files', { path: 'nowhere' }, 'call_1')
    await play([{ events: response(whole.slice(0, -1)) }], ({ frames }) => {
      expect(ofKind(frames, 'tool.output')[0]?.output).toBe('There is no such file or folder.')
      expect(ofKind(frames, 'tool.arguments.done')[0]?.arguments_text).toBe('{"path":"nowhere"}')
    })
  })

  it('does not run a call with incomplete arguments', async () => {
    const half = functionCall(0, 'write_to_file', '{"path":"half.txt","content":"ha', 'call_1').slice(0, 2)
    const end = {
      type: 'response.incomplete',
      response: { id: 'r', incomplete_details: { reason: 'max_output_tokens' }, output: [] },
    }
    const requests = await play([{ events: [...response(half).slice(0, -1), end] }], ({ frames }) => {
      expect(finalOf(frames).status).toBe('incomplete')
      expect(ofKind(frames, 'tool.output')).toEqual([])
    })
    expect(requests).toHaveLength(1)
  })

  it('does not store an API key that an error message contains', async () => {
    const model = await startModelServer([
      { status: 401, body: { error: { message: 'Bad key sk-very-secret.', code: 'x' } } },
    ])
    const server = await startTestServer({ baseUrl: model.url, apiKey: 'sk-very-secret' })
    const { id } = await server.client.createConversation()
    const frames = await ask(server, id, 'go')
    expect(frames.at(-1)).toMatchObject({ kind: 'error' })
    expect(JSON.stringify(frames)).not.toContain('sk-very-secret')
    await server.close()
    await model.close()
  })
})
