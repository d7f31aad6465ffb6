import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { type DemoModel, startDemoModel } from '../../src/demo-model/server.ts'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import { textsOfParts } from '../../web/context/part-texts.ts'
import { allFrames, ask, finalOf, frameWhen, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

/** One suite for every protocol, with the demo model as a real HTTP server. */
const servers: Record<string, Partial<Config>> = {
  'Responses with stored responses': { protocol: 'responses', store: true },
  'Responses without stored responses': { protocol: 'responses', store: false },
  'Chat Completions': { protocol: 'chat-completions' },
  'Anthropic Messages': { protocol: 'anthropic' },
}

const DOT =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** True if the request begins with all that an earlier one held, without the marks that move with the end. */
function sharedWith(earlier: string, later: string): boolean {
  const [before, after] = [conversationIn(earlier), conversationIn(later)]
  return after.startsWith(before.slice(0, -1))
}

function conversationIn(body: string): string {
  const { input, messages, system, instructions, tools } = JSON.parse(body) as Record<string, unknown>
  const head = { system, instructions, tools }
  const said = (input ?? messages) as unknown[]
  const isMark = (key: string) => key === 'cache_control'
  return JSON.stringify([head, ...said], (key, value: unknown) => (isMark(key) ? undefined : value))
}

for (const [name, options] of Object.entries(servers)) {
  const isKept = options.store === true
  describe(`a model that speaks ${name}`, () => {
    let project: string
    let model: DemoModel
    let server: TestServer
    const bodies: string[] = []

    beforeAll(async () => {
      project = mkdtempSync(join(tmpdir(), 'waymark-protocol-'))
      model = await startDemoModel({ onRequest: (_path, body) => void bodies.push(body) })
      server = await start()
    })
    afterAll(async () => {
      await server.close()
      await model.close()
      rmSync(project, { recursive: true, force: true })
    })

    const start = () =>
      startTestServer({
        project,
        baseUrl: model.url,
        apiKey: 'test-key',
        model: 'demo',
        modelTimeoutSeconds: 2,
        ...options,
      })
    const newConversation = async () => (await server.client.createConversation()).id
    const said = (frames: readonly AnyFrame[]) => finalOf(frames).response_text ?? ''
    const lastRequest = async (id: string) => {
      const { items } = await server.client.responses(id, { limit: 1 })
      return (await server.client.response(id, items[0]?.response_id ?? '')).request
    }

    it('[C8] finds the text of every sent part in the body of its request', async () => {
      writeFileSync(join(project, 'listed.txt'), 'the listed text\n')
      const { id } = await server.client.createConversation()
      const attachments = [{ name: 'note.md', content: 'the attached text' }]
      await ask(server, id, 'Read @listed.txt', { active_files: ['listed.txt'], attachments })
      await ask(server, id, '!read_file {"path":"listed.txt"}')
      await ask(server, id, 'And now?')
      const { items } = await server.client.responses(id)
      const found = new Map<string, string[]>()
      for (const { response_id } of items) {
        const { request, parts } = await server.client.response(id, response_id)
        for (const [index, text] of textsOfParts(request, parts).entries()) {
          const { origin, sent } = parts[index] ?? { origin: { type: '' }, sent: false }
          expect([origin, text === null]).toEqual([origin, !sent])
          if (text !== null) found.set(origin.type, [...(found.get(origin.type) ?? []), text])
        }
      }
      const all = (type: string) => (found.get(type) ?? []).join('\n')
      expect(all('message')).toContain('Read @listed.txt')
      expect(all('message')).toContain('And now?')
      expect(all('file')).toContain('the listed text')
      expect(all('attachment')).toContain('the attached text')
      // A provider that stores responses has its own calls.
      if (!isKept) expect(all('tool_call')).toContain('listed.txt')
      expect(all('tool_output')).toContain('the listed text')
      expect(all('instructions')).not.toBe('')
      expect(all('tools')).toContain('read_file')
    })

    it('streams text and reasoning, and reports the tokens', async () => {
      const frames = await ask(server, await newConversation(), '!think 4\n!say 12')
      expect(said(frames).split(' ')).toHaveLength(12)
      expect(ofKind(frames, 'message.delta').length).toBeGreaterThan(0)
      const thought = ofKind(frames, 'reasoning_summary.delta').map((frame) => frame.delta)
      expect(thought.join('')).toBe('the ledger keeps every')
      const { usage } = finalOf(frames)
      expect(usage?.input_tokens).toBeGreaterThan(10)
      expect(usage?.output_tokens).toBeGreaterThan(5)
      expect(await server.client.usage(ofKind(frames, 'final')[0]?.conversation_id ?? '')).toMatchObject({
        requests: 1,
        input_tokens: usage?.input_tokens,
        output_tokens: usage?.output_tokens,
        cached_tokens: usage?.cached_input_tokens,
      })
    })

    it('runs several calls of one answer, then calls of the next, and answers with their results', async () => {
      writeFileSync(join(project, 'a.txt'), 'alpha\n')
      const id = await newConversation()
      const message = [
        '!think 2',
        '!read_file {"path":"a.txt"}',
        '!+list_files {"path":"."}',
        '!write_to_file {"path":"b.txt","content":"beta\\n"}',
      ].join('\n')
      const frames = await ask(server, id, message)
      const [run] = runsOf(transcriptOf(await allFrames(server, id)))
      expect(toolsOf(run).map(({ name: tool, status }) => [tool, status])).toEqual([
        ['read_file', 'completed'],
        ['list_files', 'completed'],
        ['write_to_file', 'completed'],
      ])
      expect(said(frames)).toMatch(/^Done: 3 calls/)
      expect(readFileSync(join(project, 'b.txt'), 'utf8')).toBe('beta\n')
      // Three requests: two calls, one call, the answer.
      expect(finalOf(frames).usage?.requests).toBe(3)
    })

    it('remembers what was said and done', async () => {
      const id = await newConversation()
      await ask(server, id, 'my name is Ada')
      await ask(server, id, '!read_file {"path":"a.txt"}')
      expect(said(await ask(server, id, 'what is my name'))).toBe('Your name is Ada.')
    })

    it('[R5] retries an error before and inside the answer, and shows both', async () => {
      const frames = await ask(server, await newConversation(), `!fail 503 1\n!fail 0 1\n!say "done ${name}"`)
      const retries = ofKind(frames, 'lifecycle').flatMap((frame) => frame.retry ?? [])
      expect(retries.map(({ attempt }) => attempt)).toEqual([2, 3])
      expect(said(frames)).toBe(`done ${name}`)
    })

    it('[R5] waits as long as a 429 asks for', async () => {
      const frames = await ask(server, await newConversation(), `!fail 429 1\n!say "after ${name}"`)
      const [retry] = ofKind(frames, 'lifecycle').flatMap((frame) => frame.retry ?? [])
      expect(retry).toMatchObject({ wait_ms: 1000, attempt: 2 })
      expect(said(frames)).toBe(`after ${name}`)
    })

    it('[R5] ends a request that hangs after its time limit, and retries an answer that breaks off', async () => {
      const frames = await ask(server, await newConversation(), `!hang 1\n!break 1\n!say "whole ${name}"`)
      const reasons = ofKind(frames, 'lifecycle').flatMap((frame) => (frame.retry ? frame.reason : []))
      expect(reasons[0]).toMatch(/sent nothing for 2 s/)
      expect(reasons).toHaveLength(2)
      expect(said(frames)).toBe(`whole ${name}`)
    })

    it('continues after an error that ends a run', async () => {
      const id = await newConversation()
      const failed = await ask(server, id, 'my name is Grace\n!fail 400')
      expect(failed.at(-1)).toMatchObject({
        kind: 'error',
        error: { source: 'provider', is_retryable: false },
      })
      expect(said(await ask(server, id, 'what is my name'))).toBe('Your name is Grace.')
    })

    it('stops in the middle of an answer and continues with the next message', async () => {
      const id = await newConversation()
      const running = ask(server, id, 'my name is Alan\n!wait 20\n!say 500')
      await frameWhen(server, id, 'message.delta')
      await server.client.stop(id)
      expect(finalOf(await running).status).toBe('cancelled')
      expect(said(await ask(server, id, 'what is my name'))).toBe('Your name is Alan.')
    })

    it('keeps the conversation across a restart, a fork and a deletion', async () => {
      const id = await newConversation()
      await ask(server, id, 'my name is Edsger')
      await ask(server, id, 'my name is Barbara')
      await server.close()
      server = await start()
      expect(said(await ask(server, id, 'what is my name'))).toBe('Your name is Barbara.')
      const { items } = await server.client.messages(id, { limit: 10 })
      const second = items.find((item) => item.content === 'my name is Barbara')
      const fork = await server.client.fork(id, { message_id: second?.message_id ?? '' })
      expect(said(await ask(server, fork.id, 'what is my name'))).toBe('Your name is Edsger.')
      await server.client.deleteMessage(id, second?.message_id ?? '')
      expect(said(await ask(server, id, 'what is my name'))).toBe('Your name is Edsger.')
    })

    for (const strategy of ['trim', 'summarize', 'compact'] as const) {
      it(`[C6] shortens the memory by ${strategy}`, async () => {
        const id = await newConversation()
        await ask(server, id, 'my name is Tony')
        for (let i = 0; i < 4; i++) await ask(server, id, `!read_file {"path":"a.txt"}\nturn ${i}`)
        await server.client.shortenMemory(id, { strategy })
        const frames = await ask(server, id, 'hello again')
        expect(ofKind(frames, 'memory.checkpoint')[0]?.checkpoint).toMatchObject({ strategy })
        expect(finalOf(frames).status).toBe('completed')
      })
    }

    it('[C9] sends an image that is attached to a message, and shows it again', async () => {
      const id = await newConversation()
      const attachments = [{ name: 'dot.png', content: DOT }]
      expect(said(await ask(server, id, 'what is this', { attachments }))).toMatch(/1 message with 1 image/)
      expect(said(await ask(server, id, 'and now'))).toMatch(/3 messages with 1 image/)
      const [message] = ofKind(await allFrames(server, id), 'message.user')
      const [sent] = message?.attachments ?? []
      expect(sent).toMatchObject({ name: 'dot.png', media_type: 'image/png' })
      expect(await server.client.attachment(id, sent?.sha256 ?? '')).toMatchObject({ content: DOT })
    })

    it('[C1] records the request exactly as the server got it', async () => {
      const id = await newConversation()
      await ask(server, id, '!read_file {"path":"a.txt"}')
      expect(await lastRequest(id)).toBe(bodies.at(-1))
    })

    it('[C2] sends a beginning that the provider has cached, over 50 messages with tools and files', async () => {
      const id = await newConversation()
      let last = ''
      let [input, cached] = [0, 0]
      for (let i = 0; i < 50; i++) {
        const active = i % 10 === 0 ? { active_files: ['a.txt'] } : {}
        if (i % 20 === 10) writeFileSync(join(project, 'a.txt'), `alpha ${i}\n`)
        const message = i % 3 === 0 ? `!read_file {"path":"b.txt"}\nturn ${i}` : `turn ${i}`
        const { usage } = finalOf(await ask(server, id, message, active))
        input += usage?.input_tokens ?? 0
        cached += usage?.cached_input_tokens ?? 0
        const sent = bodies.at(-1) ?? ''
        if (last !== '' && !isKept) expect(sharedWith(last, sent)).toBe(true)
        last = sent
      }
      expect(cached / input).toBeGreaterThan(0.9)
    })
  })
}

describe('a conversation that changes its model', () => {
  let project: string
  let models: DemoModel[]
  let server: TestServer

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-switch-'))
    models = await Promise.all([startDemoModel(), startDemoModel(), startDemoModel()])
    const [responses, chat, anthropic] = models.map(({ url }) => url)
    server = await startTestServer({
      project,
      baseUrl: responses ?? '',
      protocol: 'responses',
      model: 'demo',
      store: true,
      ollamaHost: chat?.replace('/v1', '') ?? '',
      agentContexts: { claude: { baseUrl: anthropic ?? '', protocol: 'anthropic' } },
    })
  })
  afterAll(async () => {
    await server.close()
    for (const model of models) await model.close()
    rmSync(project, { recursive: true, force: true })
  })

  it('keeps all that was said, tools included, across protocols and forks', async () => {
    writeFileSync(join(project, 'a.txt'), 'alpha\n')
    const { client } = server
    const { id } = await client.createConversation()
    const said = async (at: string, message: string) =>
      finalOf(await ask(server, at, message)).response_text ?? ''
    await ask(server, id, 'my name is Ada', { active_files: ['a.txt'] })
    expect(await said(id, '!think 3\n!read_file {"path":"a.txt"}')).toMatch(/^Done: 1 call/)

    await client.changeConversation(id, { model: 'ollama/demo' })
    expect(await said(id, 'hello')).toMatch(/I was sent 5 messages and 1 tool result/)
    expect(await said(id, '!think 2\n!list_files {"path":"."}')).toMatch(/^Done: 1 call/)
    const { items } = await client.responses(id, { limit: 10 })
    const [request] = await Promise.all(items.slice(1, 2).map((one) => client.response(id, one.response_id)))
    // The file of the first message is only in the chain of the first server.
    expect(request?.request).toContain('<active_file path=')

    const fork = await client.fork(id, { event_number: (await client.conversation(id)).head_event_number })
    await client.changeConversation(fork.id, { agent_context: 'claude', model: null })
    expect(await said(fork.id, '!think 2\n!read_file {"path":"a.txt"}')).toMatch(/^Done: 1 call/)
    expect(await said(fork.id, 'what is my name')).toBe('Your name is Ada.')
    // Thinking is sent back with its signature, or the server would refuse the request.
    expect(await said(fork.id, 'hello')).toMatch(/3 tool results/)

    await client.changeConversation(fork.id, { agent_context: null })
    expect(await said(fork.id, 'what is my name')).toBe('Your name is Ada.')
    expect(await said(id, 'what is my name')).toBe('Your name is Ada.')
  })
})
