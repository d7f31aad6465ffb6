import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allFrames, ask, finalOf, ofKind } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { loadTokenCounter } from './tokens.ts'

const BUDGET = 2000
const MESSAGES = 50
/** Fewer tools, so that their definitions fit into the small budget. */
const few = {
  write_to_file: 'deny',
  replace_in_file: 'deny',
  delete_file: 'deny',
  list_files: 'deny',
  search_files: 'deny',
  run_command: 'deny',
  get_tool_result: 'deny',
} as const

describe('memory', () => {
  let project: string
  let server: TestServer
  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-memory-'))
    server = await startTestServer({ project, tools: { ...few } })
  })
  afterAll(async () => {
    await server.close()
    rmSync(project, { recursive: true, force: true })
  })

  const answers = async (id: string, question: string) =>
    finalOf(await ask(server, id, question)).response_text
  const contents = async (id: string) =>
    (await server.client.messages(id, { limit: 200 })).items.map((message) => message.content)

  async function talk(memory: { strategy: 'none' | 'trim' | 'summarize' | 'compact'; max_tokens?: number }) {
    const { id } = await server.client.createConversation({ memory })
    await ask(server, id, 'I am devansh')
    for (let n = 1; n < MESSAGES; n++) {
      const work = n % 5 === 0 ? '\n!read_file {"path":"missing.txt"}' : ''
      await ask(
        server,
        id,
        `Message ${n} is about item ${n}, and goes on for a while so that it takes room.${work}\n!say 20`,
      )
    }
    return id
  }

  /** The size of the context at each request: its input, plus the context of the response it continues from. */
  async function contextSizes(id: string): Promise<number[]> {
    const count = await loadTokenCounter()
    const { items } = await server.client.responses(id, { limit: 200 })
    const known = new Map<string, number>()
    const sizes: number[] = []
    for (const item of items.toReversed()) {
      const { request, response } = await server.client.response(id, item.response_id)
      const body = JSON.parse(request)
      const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
      const said = (list: { content?: unknown; output?: unknown; arguments?: unknown }[]) =>
        list.reduce((sum, one) => sum + count(text(one.content ?? one.output ?? one.arguments ?? '')), 0)
      const before = known.get(body.previous_response_id ?? '') ?? 0
      const own = before + said(body.input)
      const fixed = count(body.instructions ?? '') + count(JSON.stringify(body.tools ?? []))
      // Requests for a summary have no instructions, and may exceed the budget.
      if (body.instructions !== undefined) sizes.push(own + fixed)
      known.set(item.provider_id ?? '', own + said(JSON.parse(response ?? '{}').output ?? []))
    }
    return sizes
  }

  it('[C6] is sent in full, without memory checkpoints, when no strategy is set', {
    timeout: 120_000,
  }, async () => {
    const id = await talk({ strategy: 'none' })
    expect(Math.max(...(await contextSizes(id)))).toBeGreaterThan(BUDGET)
    expect(ofKind(await allFrames(server, id), 'memory.checkpoint')).toEqual([])
    expect(await answers(id, 'what is my name')).toBe('Your name is devansh.')
  })

  it.each(['trim', 'summarize', 'compact'] as const)(
    '[C6] %s keeps requests within the budget, and leaves the transcript complete',
    { timeout: 180_000 },
    async (strategy) => {
      const plain = await talk({ strategy: 'none' })
      const id = await talk({ strategy, max_tokens: BUDGET })
      const sizes = await contextSizes(id)
      expect(sizes.length).toBeGreaterThanOrEqual(MESSAGES)
      expect(Math.max(...sizes)).toBeLessThanOrEqual(BUDGET)
      expect(await contents(id)).toEqual(await contents(plain))
      const marks = ofKind(await allFrames(server, id), 'memory.checkpoint')
      expect(marks.length).toBeGreaterThan(1)
      for (const { checkpoint, event_id } of marks) {
        expect(checkpoint).toMatchObject({ strategy, trigger_reason: 'more than 2000 tokens' })
        expect(checkpoint.tokens_after).toBeLessThan(checkpoint.tokens_before)
        expect(checkpoint.turns_after).toBeGreaterThan(0)
        expect(checkpoint.kept_from_seq).toBeLessThan(event_id)
      }
      const { items } = await server.client.memory(id)
      expect(items).toHaveLength(marks.length)
      if (strategy === 'summarize') {
        expect(items[0]?.summary).toContain('my name is devansh')
        expect(await answers(id, 'what is my name')).toBe('Your name is devansh.')
      } else {
        expect(await answers(id, 'what is my name')).toMatch(/I do not know/)
        await ask(server, id, 'my name is somebody')
        expect(await answers(id, 'what is my name')).toBe('Your name is somebody.')
      }
      // After an undo, later runs see the whole history again.
      expect(await server.client.undoMemory(id)).toMatchObject({ strategy: 'none' })
      await ask(server, id, 'hello')
      const { parts } = await server.client.context(id)
      expect(parts.filter((part) => part.origin.type === 'message').length).toBeGreaterThan(MESSAGES * 2)
    },
  )

  it('[C6] is shortened once in a run with many model calls, and a failed run does not count', async () => {
    const { id } = await server.client.createConversation()
    for (let n = 0; n < 8; n++) await ask(server, id, `message ${n}`)
    await server.client.shortenMemory(id, { strategy: 'trim' })
    await ask(server, id, '!fail 400')
    expect(await server.client.memory(id)).toMatchObject({ wanted: 'trim' })
    const reading =
      '!read_file {"path":"missing.txt"}\n!read_file {"path":"other.txt"}\n!read_file {"path":"third.txt"}'
    const frames = await ask(server, id, reading)
    expect(ofKind(frames, 'memory.checkpoint')).toHaveLength(1)
    expect(await server.client.memory(id)).toMatchObject({ wanted: null })
  })

  it('[C6] refuses to undo while a run is active', async () => {
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: '!wait 20\n!say 50' })
    await expect.poll(async () => (await server.client.queue(id)).active).not.toBe(null)
    await expect(server.client.undoMemory(id)).rejects.toMatchObject({ code: 'conversation_busy' })
    await server.client.stop(id)
  })

  it('counts the tokens of a repetitive text in bounded time', async () => {
    const count = await loadTokenCounter()
    const started = performance.now()
    expect(count('a'.repeat(1_000_000))).toBeGreaterThan(1000)
    expect(performance.now() - started).toBeLessThan(5000)
  })

  it('[C6] is shortened once on request, however short it is', async () => {
    const { id } = await server.client.createConversation()
    for (const n of [1, 2, 3, 4]) await ask(server, id, `message ${n}`)
    expect(await server.client.shortenMemory(id, { strategy: 'trim' })).toMatchObject({ wanted: 'trim' })
    await ask(server, id, 'message 5')
    await ask(server, id, 'message 6')
    const { items, wanted } = await server.client.memory(id)
    expect(wanted).toBe(null)
    expect(items).toMatchObject([
      { checkpoint: { strategy: 'trim', trigger_reason: 'requested', turns_before: 5, turns_after: 3 } },
    ])
    expect(await contents(id)).toHaveLength(12)
  })
})
