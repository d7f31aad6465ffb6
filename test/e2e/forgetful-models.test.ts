import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startDemoModel } from '../../src/demo-model/server.ts'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import { calls, type ModelEvent, says } from '../support/model-server.ts'
import { ask, finalOf, ofKind } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { rounds } from '../support/soak.ts'

/**
 * Servers that break the contract of stored responses, each in its own way. Every request that was answered must have given
 * the model everything: what the server really held, together with what was sent.
 */
const behaviours = ['keeps', 'ignores', 'refuses', 'forgets', 'rejects unknown fields'] as const
type Behaviour = (typeof behaviours)[number]

interface Item {
  type?: string
  role?: string
  content?: unknown
  output?: unknown
  call_id?: string
}

/** A Responses server that calls a tool for each message that asks for one, and records what its model saw. */
class OddServer {
  behaviour: Behaviour = 'keeps'
  /** What the model saw when it answered, oldest first. */
  readonly seen: Item[][] = []
  private readonly stored = new Map<string, Item[]>()
  private readonly server: Server
  private count = 0

  constructor() {
    this.server = createServer((request, answer) => {
      void (async () => {
        const chunks: Buffer[] = []
        for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
        if (request.method === 'GET') return void answer.end('{"data":[{"id":"m"}]}')
        const body = JSON.parse(Buffer.concat(chunks).toString()) as {
          input: Item[]
          previous_response_id?: string
        }
        const events = this.answerTo(body)
        if (events === null) {
          answer
            .writeHead(400, { 'Content-Type': 'text/plain' })
            .end('I do not know what you are talking about')
          return
        }
        answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
        for (const event of events) answer.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        answer.end()
      })()
    })
  }

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`
  }

  /** Null for a refusal. */
  private answerTo(body: { input: Item[]; previous_response_id?: string }): ModelEvent[] | null {
    const { previous_response_id: previous, input } = body
    const held = previous === undefined ? [] : this.stored.get(previous)
    if (previous !== undefined) {
      const isRefused =
        this.behaviour === 'refuses' ||
        this.behaviour === 'rejects unknown fields' ||
        (this.behaviour === 'forgets' && this.count++ % 2 === 0)
      if (isRefused || !held) return this.behaviour === 'ignores' ? this.reply(input, null) : null
      if (this.behaviour === 'ignores') return this.reply(input, null)
    }
    return this.reply([...(held ?? []), ...input], previous ?? null)
  }

  private reply(items: Item[], previous: string | null): ModelEvent[] {
    this.seen.push(items)
    const asked = items.findLastIndex((item) => item.role === 'user')
    const isAnswered = items.slice(asked + 1).some((item) => item.type === 'function_call_output')
    const question = String(items[asked]?.content ?? '')
    const events =
      question.includes('use a tool') && !isAnswered
        ? calls('read_file', { path: 'a.txt', start_line: this.seen.length })
        : says(`answer ${this.seen.length}`)
    const [created, ...rest] = events
    const response = { ...(created?.response as { id: string }), previous_response_id: previous }
    const output = rest.flatMap((event) =>
      event.type === 'response.output_item.done' ? [event.item as Item] : [],
    )
    this.stored.set(response.id, [...items, ...output])
    return [{ type: 'response.created', response }, ...rest]
  }

  forgetAll(): void {
    this.stored.clear()
  }

  async close(): Promise<void> {
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, 'close')
  }
}

const reasonsIn = (frames: readonly AnyFrame[]) =>
  ofKind(frames, 'lifecycle').flatMap((frame) => frame.reason ?? [])
const textsIn = (items: readonly Item[]) =>
  items.map((item) => JSON.stringify(item.content ?? item.output ?? ''))

describe('a server that does not keep what it promised', () => {
  let project: string
  let model: OddServer
  let url: string
  let server: TestServer

  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-odd-'))
    writeFileSync(join(project, 'a.txt'), 'alpha\n')
    model = new OddServer()
    url = await model.listen()
    server = await start()
  })
  afterEach(async () => {
    await server.close()
    await model.close()
    rmSync(project, { recursive: true, force: true })
  })
  const start = (store = true) => startTestServer({ project, baseUrl: url, model: 'm', store })

  it.each(['ignores', 'refuses', 'forgets'] as const)(
    '[C4] gets the whole conversation in the same run if it %s the chain, with a notice',
    async (behaviour) => {
      const { id } = await server.client.createConversation()
      await ask(server, id, 'first question', { active_files: ['a.txt'] })
      model.behaviour = behaviour
      const notices: string[] = []
      for (const question of ['second question: use a tool', 'third question', 'fourth question']) {
        const frames = await ask(server, id, question)
        expect(finalOf(frames).status).toBe('completed')
        notices.push(...reasonsIn(frames))
        const seen = textsIn(model.seen.at(-1) ?? []).join('\n')
        for (const part of ['first question', 'alpha', question]) expect(seen).toContain(part)
      }
      expect(notices[0]).toMatch(/no longer has the conversation/)
      // A server that keeps failing is not asked again.
      expect(notices.length).toBeLessThanOrEqual(2)
    },
  )

  it.each([
    ['changed', (path: string) => writeFileSync(path, 'beta\n'), /changed_file|beta/],
    ['deleted', (path: string) => rmSync(path), /deleted_file/],
  ] as const)(
    '[C4] is notified again that a file was %s if only the refused chain had the notice',
    async (_, change, note) => {
      await server.close()
      // Without a chain, the file is a part of the history.
      server = await start(false)
      const { id } = await server.client.createConversation()
      await ask(server, id, 'first question', { active_files: ['a.txt'] })
      await server.close()
      server = await start()
      change(join(project, 'a.txt'))
      await ask(server, id, 'second question')
      model.behaviour = 'refuses'
      for (const question of ['third question', 'fourth question']) {
        await ask(server, id, question)
        const texts = textsIn(model.seen.at(-1) ?? [])
        expect(texts.findLast((text) => /<(active|changed|deleted)_file/.test(text))).toMatch(note)
      }
    },
  )

  it('[C3] learns that a deleted file exists again', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'first question', { active_files: ['a.txt'] })
    rmSync(join(project, 'a.txt'))
    await ask(server, id, 'second question')
    expect(textsIn(model.seen.at(-1) ?? []).join('\n')).toContain('<deleted_file')
    writeFileSync(join(project, 'a.txt'), 'beta\n')
    await ask(server, id, 'third question')
    expect(textsIn(model.seen.at(-1) ?? []).join('\n')).toContain('<changed_file')
  })

  it('[C4] gets a file whose change was reported to the refused chain', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'first question', { active_files: ['a.txt'] })
    writeFileSync(join(project, 'a.txt'), 'beta\n')
    await ask(server, id, 'second question')
    model.behaviour = 'refuses'
    for (const question of ['third question', 'fourth question']) {
      await ask(server, id, question)
      expect(textsIn(model.seen.at(-1) ?? []).join('\n')).toContain('beta')
    }
  })

  it('[C4] is used through Chat Completions if it has no /responses, with one notice', async () => {
    await server.close()
    const chat = await startDemoModel({ without: ['/v1/responses'] })
    server = await startTestServer({ project, baseUrl: chat.url, model: 'demo', store: 'auto' })
    const { id } = await server.client.createConversation()
    const frames = await ask(server, id, 'my name is Ada')
    expect(reasonsIn(frames)).toEqual([expect.stringMatching(/no \/responses; using \/chat\/completions/)])
    const more = await ask(server, id, 'what is my name')
    expect(finalOf(more).response_text).toBe('Your name is Ada.')
    expect(reasonsIn(more)).toEqual([])
    await chat.close()
  })

  it('says which key is missing if the configured model belongs to a provider without one', async () => {
    await server.close()
    server = await startTestServer({ project, baseUrl: null, apiKey: 'sk-test', model: 'anthropic/claude' })
    expect(await server.modelProblem).toMatch(/Set ANTHROPIC_API_KEY/)
    expect((await server.client.about()).model.problem).toMatch(/Set ANTHROPIC_API_KEY/)
    const { id } = await server.client.createConversation()
    expect((await ask(server, id, 'hello')).at(-1)).toMatchObject({
      kind: 'error',
      error: { code: 'unknown_model', message: expect.stringMatching(/Set ANTHROPIC_API_KEY/) as string },
    })
  })

  it('says what to check if it has no path that we know', async () => {
    await server.close()
    const none = await startDemoModel({ without: ['/v1/responses', '/v1/chat/completions'] })
    server = await startTestServer({ project, baseUrl: none.url, model: 'demo', store: 'auto' })
    const { id } = await server.client.createConversation()
    expect((await ask(server, id, 'hello')).at(-1)).toMatchObject({
      kind: 'error',
      error: { message: expect.stringMatching(/Check the base URL and the model's name/) as string },
    })
    await none.close()
  })

  it('[C2] [C4] always gives the model the question, the tool results and the files, whatever the server does', {
    timeout: 3_600_000,
  }, async () => {
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ do: fc.constant('ask' as const), tool: fc.boolean(), file: fc.boolean() }),
      },
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constant('behave' as const), as: fc.constantFrom(...behaviours) }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('fork' as const), at: fc.nat() }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), at: fc.nat() }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('edit' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const) }) },
    )
    let edits = 0
    let content: string | null = 'alpha'
    const put = (next: string | null) => {
      content = next
      if (next === null) rmSync(join(project, 'a.txt'), { force: true })
      else writeFileSync(join(project, 'a.txt'), `${next}\n`)
    }
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 6, maxLength: 14 }), async (steps) => {
        let { id } = await server.client.createConversation()
        /** The questions on the line, each with the number of tool results since the start. */
        let line: { question: string; tool: boolean; file: boolean }[] = []
        for (const one of steps) {
          if (one.do === 'behave') model.behaviour = one.as
          else if (one.do === 'forget') model.forgetAll()
          else if (one.do === 'edit') put(`alpha ${++edits}`)
          else if (one.do === 'remove') put(null)
          else if (one.do === 'restart') {
            await server.close()
            server = await start()
          } else if (one.do === 'ask') {
            const question = `question ${line.length} of ${Math.random()}${one.tool ? ': use a tool' : ''}`
            const named = one.file ? { active_files: ['a.txt'] } : {}
            const frames = await ask(server, id, question, named)
            expect(finalOf(frames).status).toBe('completed')
            line.push({ question, tool: one.tool, file: one.file && content !== null })
            check(line)
          } else if (line.length > 1) {
            const at = one.at % line.length
            const { items } = await server.client.messages(id, { limit: 100 })
            const message = items.find((item) => item.content === line[at]?.question)
            if (one.do === 'fork') {
              id = (await server.client.fork(id, { message_id: message?.message_id ?? '' })).id
            } else await server.client.deleteMessage(id, message?.message_id ?? '')
            line = line.slice(0, at)
          }
        }

        function check(asked: typeof line): void {
          const seen = model.seen.at(-1) ?? []
          const texts = textsIn(seen)
          for (const { question } of asked) expect(texts.join('\n')).toContain(question)
          const results = seen.filter((item) => item.type === 'function_call_output').length
          expect(results).toBe(asked.filter(({ tool }) => tool).length)
          // A file that the message names is there as it is now. One that an earlier message named is, or its change is noted.
          const states = texts.filter((text) => /<(active|changed|deleted)_file/.test(text))
          const last = states.at(-1)
          if (content === null) {
            // A model that never had the file need not learn that it is gone.
            if (last !== undefined) expect(last, JSON.stringify(texts)).toContain('<deleted_file')
            return
          }
          const isCurrent = last?.includes(`\\n${content}\\n`) ?? false
          const isNoted = last?.includes('<changed_file') ?? false
          if (asked.at(-1)?.file) expect(isCurrent, JSON.stringify(texts)).toBe(true)
          else if (asked.some(({ file }) => file))
            expect(isCurrent || isNoted, JSON.stringify(texts)).toBe(true)
        }
      }),
      { numRuns: rounds(12, 300), endOnFailure: true },
    )
  })
})
