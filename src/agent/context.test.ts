import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  calls,
  type ModelServer,
  type Part,
  says,
  startModelServer,
} from '../../test/support/model-server.ts'
import { ask, finalOf, ofKind } from '../../test/support/runs.ts'
import { jsonBody, startTestServer, type TestServer } from '../../test/support/server.ts'
import type { AnyFrame } from '../protocol/frames.ts'
import { openStore } from '../server/store.ts'

const user = (content: string) => ({ role: 'user', content })
const file = (path: string, text: string) => user(`<active_file path="${path}">\n${text}\n</active_file>`)

describe('the request to the model', () => {
  let project: string
  let model: ModelServer
  let server: TestServer
  let parts: Part[]

  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-context-'))
    parts = []
    model = await startModelServer(parts)
    server = await start()
  })
  afterEach(async () => {
    vi.useRealTimers()
    await server.close()
    await model.close()
    rmSync(project, { recursive: true, force: true })
  })

  const start = (options: Parameters<typeof startTestServer>[0] = {}) =>
    startTestServer({
      project,
      baseUrl: model.url,
      apiKey: 'sk-test',
      model: 'm',
      embedder: 'none',
      ...options,
    })
  const restart = async (options: Parameters<typeof startTestServer>[0] = {}) => {
    await server.close()
    server = await start(options)
  }
  const newConversation = async () => (await server.client.createConversation()).id
  /** Sends a message and returns the body of the last request made for it. */
  const sent = async (id: string, content: string, more: object = {}): Promise<Sent> => {
    const { headers, ...init } = jsonBody({ content, ...more })
    const response = await server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...headers, Accept: 'text/event-stream' },
    })
    await response.text()
    return model.requests.at(-1) as unknown as Sent
  }
  const reasons = (frames: readonly AnyFrame[]) =>
    ofKind(frames, 'lifecycle').flatMap((frame) => frame.reason ?? [])

  interface Sent {
    input: { role?: string; content?: unknown; type?: string }[]
    previous_response_id?: string
    store?: boolean
  }

  it('[C2] sends the question, and in a follow-up only the previous response id and the new question', async () => {
    const id = await newConversation()
    parts.push({ events: says('one') }, { events: says('two') })
    const first = await sent(id, 'hello')
    expect(first).toMatchObject({ input: [user('hello')], store: true, model: 'm' })
    expect(first).not.toHaveProperty('previous_response_id')
    const second = await sent(id, 'and now?')
    expect(second.input).toEqual([user('and now?')])
    expect(second.previous_response_id).toMatch(/^resp_/)
  })

  it('[C2] sends only the outcome after a tool call', async () => {
    const id = await newConversation()
    parts.push({ events: calls('list_files', {}, 'call_1') }, { events: says('done') })
    const last = await sent(id, 'look')
    expect(last.input).toMatchObject([{ type: 'function_call_output', call_id: 'call_1' }])
    expect(last.previous_response_id).toMatch(/^resp_/)
    expect((await sent(id, 'again')).input).toEqual([user('again')])
  })

  it('[C2] [C3] sends active files in full, again only after a change, and reports deleted ones', async () => {
    const id = await newConversation()
    writeFileSync(join(project, 'a.txt'), 'first')
    writeFileSync(join(project, 'large.txt'), 'x'.repeat(100 * 1024 + 1))
    const active_files = ['a.txt', 'large.txt', { path: 'buffer.txt', content: 'not saved' }]
    expect((await sent(id, 'one', { active_files })).input).toEqual([
      file('a.txt', 'first'),
      file('buffer.txt', 'not saved'),
      user('one'),
    ])
    expect((await sent(id, 'two', { active_files })).input).toEqual([user('two')])
    writeFileSync(join(project, 'a.txt'), 'second')
    expect((await sent(id, 'three', { active_files })).input).toEqual([
      file('a.txt', 'second'),
      user('three'),
    ])
    unlinkSync(join(project, 'a.txt'))
    expect((await sent(id, 'four')).input).toEqual([
      user('<deleted_file path="a.txt"/>'),
      user('<deleted_file path="buffer.txt"/>'),
      user('four'),
    ])
    expect((await sent(id, 'five')).input).toEqual([user('five')])
    const { items } = await server.client.responses(id)
    const first = await server.client.response(id, items.at(-1)?.response_id ?? '')
    expect(first.parts).toContainEqual({
      origin: { type: 'file', path: 'large.txt', sha256: null, bytes: 102_401 },
      tokens: 0,
      sent: false,
      why: 'larger than 100 KB',
    })
  })

  it('[C2] treats edits by tools as known to the model, and sends or reports later changes', async () => {
    const id = await newConversation()
    writeFileSync(join(project, 'a.txt'), 'A')
    const active_files = ['a.txt']
    await sent(id, 'hello')
    parts.push({ events: calls('write_to_file', { path: 'a.txt', content: 'B' }) })
    await sent(id, 'write', { active_files })
    // The file is as the agent wrote it, so nothing is sent.
    expect((await sent(id, 'next', { active_files })).input).toEqual([user('next')])
    const written = (await server.client.messages(id)).items.find((message) => message.content === 'write')
    await server.client.restore(id, { checkpoint_id: written?.checkpoint_id ?? '' })
    expect((await sent(id, 'and now', { active_files })).input).toEqual([file('a.txt', 'A'), user('and now')])
    writeFileSync(join(project, 'a.txt'), 'C')
    expect((await sent(id, 'not named')).input).toEqual([
      user('<changed_file path="a.txt"/>'),
      user('not named'),
    ])
    expect((await sent(id, 'again')).input).toEqual([user('again')])
  })

  it('[C3] sends files that git reports as changed, without touching the repository', async () => {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: project, stdio: 'pipe' })
    git('init', '-q')
    mkdirSync(join(project, 'src'))
    for (const name of ['same.txt', 'src/changed.txt', 'gone.txt']) writeFileSync(join(project, name), name)
    git('add', '.')
    git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'x')
    writeFileSync(join(project, 'src/changed.txt'), 'now')
    writeFileSync(join(project, 'new.txt'), 'new')
    unlinkSync(join(project, 'gone.txt'))
    const { input } = await sent(await newConversation(), 'hello')
    expect(input).toEqual([
      user('<deleted_file path="gone.txt"/>'),
      file('src/changed.txt', 'now'),
      file('new.txt', 'new'),
      user('hello'),
    ])
  })

  it('[C9] sends small attachments in full with their message, also in forks and with the full history', async () => {
    const id = await newConversation()
    const attachments = [{ name: 'spec "1".md', content: 'The door must be green.' }]
    const whole = user('<attachment name="spec \\"1\\".md">\nThe door must be green.\n</attachment>')
    expect((await sent(id, 'read this', { attachments })).input).toEqual([whole, user('read this')])
    const { parts: told } = await server.client.context(id)
    expect(told).toContainEqual(
      expect.objectContaining({ origin: { type: 'attachment', name: 'spec "1".md' } }),
    )
    const fork = await server.client.fork(id)
    await restart({ store: false })
    expect((await sent(fork.id, 'and?')).input).toMatchObject([
      whole,
      user('read this'),
      { role: 'assistant' },
      user('and?'),
    ])
    const [message] = ofKind((await server.client.events(id)).items as unknown as AnyFrame[], 'message.user')
    expect(message?.attachments).toMatchObject([{ name: 'spec "1".md', bytes: 23 }])
  })

  it('[C9] sends matching snippets of large attachments, only on lines that have them', async () => {
    const id = await newConversation()
    const lines = Array.from({ length: 3000 }, (_, n) => `line ${n}: nothing of interest here`)
    lines[1500] = 'The frobnicator must be calibrated to 42 before use.'
    const attachments = [{ name: 'manual.txt', content: lines.join('\n') }]
    const first = await sent(id, 'how is the frobnicator calibrated?', { attachments })
    expect(first.input).toHaveLength(first.input.filter((item) => item.role === 'user').length)
    expect(String(first.input[0]?.content)).toContain('Too large to show whole')
    expect(
      first.input.map((item) => String(item.content)).find((text) => text.startsWith('<snippet')),
    ).toContain('calibrated to 42')
    const fork = await server.client.fork(id)
    const other = await newConversation()
    const asked = 'tell me again about the calibrated frobnicator'
    expect((await sent(other, asked)).input).toEqual([user(asked)])
    await server.client.deleteConversation(id)
    await server.client.collect({ now: true })
    await restart({ store: false })
    expect(JSON.stringify((await sent(fork.id, asked)).input)).toContain('calibrated to 42')
  })

  it('[C2] [C7] sends a snippet once per chain, and again after it has changed', async () => {
    const id = await newConversation()
    const path = join(project, 'notes.txt')
    writeFileSync(path, 'The zephyr module opens the valve.\n')
    parts.push({ events: calls('read_file', { path: 'notes.txt' }) })
    await sent(id, 'read it')
    const snippet = (text: string) => user(`<snippet path="notes.txt" lines="1-1">\n${text}\n</snippet>`)
    const ask = 'what does the zephyr module open?'
    expect((await sent(id, ask)).input).toEqual([snippet('The zephyr module opens the valve.'), user(ask)])
    expect((await sent(id, ask)).input).toEqual([user(ask)])
    writeFileSync(path, 'The zephyr module opens the hatch.\n')
    expect((await sent(id, ask)).input).toEqual([
      user('<changed_file path="notes.txt"/>'),
      snippet('The zephyr module opens the hatch.'),
      user(ask),
    ])
    expect((await sent(id, ask, { rag_scope: { paths: ['src/**'] } })).input).toEqual([user(ask)])
    unlinkSync(path)
    expect((await sent(id, ask)).input).toEqual([user('<deleted_file path="notes.txt"/>'), user(ask)])
    const { items } = await server.client.responses(id)
    const { parts: told } = await server.client.response(id, items[3]?.response_id ?? '')
    expect(told.find((part) => part.origin.type === 'chunk')).toMatchObject({
      sent: false,
      why: 'sent before on this chain',
    })
  })

  it('[W9] updates the index after a restore and a reset', async () => {
    const id = await newConversation()
    await sent(id, 'hello')
    const before = (await server.client.messages(id)).items[0]?.checkpoint_id ?? ''
    parts.push({ events: calls('write_to_file', { path: 'a.txt', content: 'one' }) })
    await sent(id, 'write')
    const store = await openStore(server.config)
    const indexed = async () => (await store.index.files(server.config.workspaceId)).map((file) => file.path)
    try {
      expect(await indexed()).toEqual(['a.txt'])
      const { safety_checkpoint } = await server.client.restore(id, { checkpoint_id: before })
      expect(await indexed()).toEqual([])
      await server.client.restore(id, { checkpoint_id: safety_checkpoint ?? '' })
      parts.push({ events: calls('read_file', { path: 'a.txt' }) })
      await sent(id, 'read')
      expect(await indexed()).toEqual(['a.txt'])
      await server.client.reset(id)
      expect(await indexed()).toEqual([])
    } finally {
      await store.close()
    }
  })

  it('uses the instructions, model and temperature of the conversation context', async () => {
    await restart({
      conversationContexts: {
        terse: { instructions: 'Answer in one word.', model: 'small', temperature: 0.1 },
      },
    })
    const { id } = await server.client.createConversation({ conversation_context: 'terse' })
    expect(await sent(id, 'hello')).toMatchObject({
      instructions: 'Answer in one word.',
      model: 'small',
      temperature: 0.1,
    })
    await server.client.changeConversation(id, { conversation_context: null })
    const plain = await sent(id, 'hello')
    expect(plain).toMatchObject({ model: 'm' })
    expect(plain).not.toHaveProperty('previous_response_id')
    const { id: unknown } = await server.client.createConversation({ conversation_context: 'nobody' })
    expect((await ask(server, unknown, 'hello')).at(-1)).toMatchObject({
      kind: 'error',
      error: { code: 'unknown_context' },
    })
  })

  it('uses the model server and the index of the agent context', async () => {
    const other = await startModelServer([])
    try {
      await restart({ agentContexts: { lab: { baseUrl: other.url, index: 'lab' } } })
      const { id } = await server.client.createConversation({ agent_context: 'lab' })
      await sent(id, 'hello')
      expect(other.requests).toHaveLength(1)
      expect((await server.client.responses(id)).items[0]).toMatchObject({ status: 'completed' })
    } finally {
      await other.close()
    }
  })

  it('[C4] sends a new chain the files and snippets of the old one in their current state', async () => {
    const id = await newConversation()
    writeFileSync(join(server.config.project, 'named.txt'), 'as it was\n')
    writeFileSync(join(server.config.project, '.env'), 'SECRET=1\n')
    parts.push({ events: says('one') })
    const files = { active_files: ['named.txt', '.env'] }
    await server.client.sendMessage(id, { content: 'look at these', ...files })
    await expect.poll(() => server.client.queue(id)).toMatchObject({ active: null, items: [] })
    expect(JSON.stringify(model.requests.at(-1))).toContain('as it was')
    writeFileSync(join(server.config.project, 'named.txt'), 'as it is now\n')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 31 * 24 * 60 * 60 * 1000 })
    await ask(server, id, 'still there?')
    const request = JSON.stringify(model.requests.at(-1))
    expect(request).toContain('as it is now')
    // A hidden file is sent only when a person names it with this message.
    expect(request).not.toContain('SECRET')
    const { parts: told } = await server.client.context(id)
    const named = told.find((part) => part.origin.path === 'named.txt')
    expect(named).toMatchObject({ sent: true, why: 'sent on the previous chain' })
  })

  it('sends the key of an agent context to its own server, or to the default one if it names none', async () => {
    const other = await startModelServer([])
    await restart({
      agentContexts: {
        elsewhere: { baseUrl: other.url, apiKeyVariable: 'OTHER_KEY' },
        account: { apiKeyVariable: 'OTHER_KEY' },
        keyless: { baseUrl: other.url },
      },
      contextKeys: { OTHER_KEY: 'sk-other' },
    })
    const { id } = await server.client.createConversation({ agent_context: 'elsewhere' })
    await sent(id, 'one')
    await server.client.changeConversation(id, { agent_context: 'account' })
    await sent(id, 'two')
    await server.client.changeConversation(id, { agent_context: 'keyless' })
    await sent(id, 'three')
    expect(other.keys).toEqual(['Bearer sk-other', 'Bearer none'])
    expect(model.keys).toEqual(['Bearer sk-other'])
    await other.close()
  })

  it('[C3] sends a named file whole if the model has only a part of it or only knows that it changed', async () => {
    writeFileSync(join(project, 'a.txt'), 'one\ntwo\n')
    const id = await newConversation()
    parts.push({ events: calls('read_file', { path: 'a.txt', start_line: 2 }) }, { events: says('read') })
    await sent(id, 'look')
    parts.push({ events: says('two') }, { events: says('three') }, { events: says('four') })
    expect((await sent(id, 'all of it', { active_files: ['a.txt'] })).input).toEqual([
      file('a.txt', 'one\ntwo\n'),
      user('all of it'),
    ])
    writeFileSync(join(project, 'a.txt'), 'three\n')
    expect((await sent(id, 'and now')).input).toEqual([user('<changed_file path="a.txt"/>'), user('and now')])
    expect((await sent(id, 'again', { active_files: ['a.txt'] })).input).toEqual([
      file('a.txt', 'three\n'),
      user('again'),
    ])
  })

  it('[C3] sends the instructions for agents of the project and of the folders it works in, and again when they change', async () => {
    mkdirSync(join(project, 'web'))
    writeFileSync(join(project, 'AGENTS.md'), 'Use tabs.\n')
    writeFileSync(join(project, 'CLAUDE.md'), 'Not read: there is an AGENTS.md.\n')
    writeFileSync(join(project, 'web', 'CLAUDE.md'), 'No semicolons.\n')
    writeFileSync(join(project, 'web', 'page.ts'), 'let page\n')
    const instructions = (path: string, text: string) =>
      user(`<project_instructions path="${path}">\n${text}\n</project_instructions>`)
    const id = await newConversation()
    parts.push({ events: says('one') }, { events: says('two') }, { events: says('three') })
    expect((await sent(id, 'hello')).input).toEqual([instructions('AGENTS.md', 'Use tabs.\n'), user('hello')])
    expect((await sent(id, 'look', { active_files: ['web/page.ts'] })).input).toEqual([
      instructions('web/CLAUDE.md', 'No semicolons.\n'),
      file('web/page.ts', 'let page\n'),
      user('look'),
    ])
    writeFileSync(join(project, 'AGENTS.md'), 'Use spaces.\n')
    expect((await sent(id, 'again')).input).toEqual([
      instructions('AGENTS.md', 'Use spaces.\n'),
      user('again'),
    ])
    const { parts: listed } = await server.client.context(id)
    expect(listed.find(({ origin }) => origin.type === 'file')).toMatchObject({
      origin: { path: 'AGENTS.md' },
      why: 'changed since it was sent',
    })
  })

  it('[C4] starts a new chain with the full history after 30 days', async () => {
    const id = await newConversation()
    parts.push({ events: says('one') })
    await sent(id, 'hello')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 31 * 24 * 60 * 60 * 1000 })
    const frames = await ask(server, id, 'still there?')
    const last = model.requests.at(-1) as unknown as Sent
    expect(last).not.toHaveProperty('previous_response_id')
    expect(last.input).toMatchObject([user('hello'), { role: 'assistant' }, user('still there?')])
    expect(reasons(frames)[0]).toMatch(/30 days/)
    expect((await server.client.responses(id)).items[0]).toMatchObject({ chain: 'expired' })
  })

  it.each([
    [404, { code: 'previous_response_not_found', param: 'previous_response_id' }],
    [400, { code: null, param: 'previous_response_id' }],
  ])(
    '[C4] starts one new chain in the same run, visibly, when the provider refuses the old one with %s',
    async (status, error) => {
      const id = await newConversation()
      await sent(id, 'hello')
      const message = "Previous response with id 'resp_x' not found."
      parts.push(
        { status, body: { error: { message, type: 'invalid_request_error', ...error } } },
        { events: says('again') },
      )
      const frames = await ask(server, id, 'more')
      expect(finalOf(frames).response_text).toBe('again')
      const [refused, told] = model.requests.slice(-2) as unknown as [Sent, Sent]
      expect(refused.previous_response_id).toMatch(/^resp_/)
      expect(told).not.toHaveProperty('previous_response_id')
      expect(told.input).toMatchObject([user('hello'), { role: 'assistant' }, user('more')])
      expect(reasons(frames)).toContain('The model no longer has the conversation; sending all of it again.')
      const { items } = await server.client.responses(id)
      expect(items.slice(0, 2)).toMatchObject([
        { chain: 'refused', status: 'completed' },
        { chain: 'follow_up', status: 'failed', error: { code: 'previous_response_not_found' } },
      ])
      expect((await sent(id, 'and on')).input).toEqual([user('and on')])
    },
  )

  it('[C5] continues from the chain at the fork or before the cut, also after a restart', async () => {
    const id = await newConversation()
    await sent(id, 'one')
    const second = await sent(id, 'two')
    await sent(id, 'three')
    const two = (await server.client.messages(id)).items[2]
    const fork = await server.client.fork(id, { message_id: two?.message_id ?? '' })
    const forked = await sent(fork.id, 'two in other words')
    expect(forked).toMatchObject({
      previous_response_id: second.previous_response_id,
      input: [user('two in other words')],
    })
    await restart()
    await server.client.deleteMessage(id, two?.message_id ?? '')
    expect(await sent(id, 'another two')).toMatchObject({
      previous_response_id: second.previous_response_id,
      input: [user('another two')],
    })
  })

  it('[C2] sends the full history to another model, and to a provider that stores nothing', async () => {
    const id = await newConversation()
    await sent(id, 'one')
    await restart({ model: 'other' })
    const changed = await sent(id, 'two')
    expect(changed).not.toHaveProperty('previous_response_id')
    expect(changed.input).toHaveLength(3)
    expect((await server.client.responses(id)).items[0]).toMatchObject({ chain: 'changed', model: 'other' })
    await restart({ model: 'other', store: false })
    const whole = await sent(id, 'three')
    expect(whole).toMatchObject({ store: false })
    expect(whole.input).toHaveLength(5)
    expect((await sent(id, 'four')).input).toHaveLength(7)
  })

  it('[C6] sends the remaining history after the memory was shortened, and then continues from it', async () => {
    const id = await newConversation()
    for (const n of [1, 2, 3, 4]) {
      parts.push({ events: says(`answer ${n}`) })
      await sent(id, `message ${n}`)
    }
    await server.client.shortenMemory(id, { strategy: 'trim' })
    const shortened = await sent(id, 'message 5')
    expect(shortened).not.toHaveProperty('previous_response_id')
    expect(shortened.input).toEqual([
      user('message 3'),
      { role: 'assistant', content: 'answer 3' },
      user('message 4'),
      { role: 'assistant', content: 'answer 4' },
      user('message 5'),
    ])
    const next = await sent(id, 'message 6')
    expect(next.input).toEqual([user('message 6')])
    expect(next.previous_response_id).toMatch(/^resp_/)
  })

  it('[C1] records the exact request and the response', async () => {
    const id = await newConversation()
    parts.push({ events: says('answer') })
    await sent(id, 'question')
    const { items } = await server.client.responses(id)
    const record = await server.client.response(id, items[0]?.response_id ?? '')
    expect(JSON.parse(record.request)).toEqual(model.requests.at(-1))
    expect(JSON.parse(record.response ?? '{}')).toMatchObject({ status: 'completed', id: record.provider_id })
    expect(record).toMatchObject({
      question: 'question',
      status: 'completed',
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
      workspace_id: server.config.workspaceId,
    })
    expect(record.parts.map((part) => [part.origin.type, part.sent])).toEqual([
      ['instructions', true],
      ['tools', true],
      ['message', true],
    ])
    // The record and the conversation expire 30 days after the response ended; a fork has the same chain.
    const expires = new Date(Date.parse(record.ended_at ?? '') + 30 * 24 * 3_600_000).toISOString()
    expect(record.expires_at).toBe(expires)
    expect((await server.client.conversation(id)).expires_at).toBe(expires)
    expect((await server.client.fork(id)).expires_at).toBe(expires)
    await expect(server.client.response(id, 'resp_x')).rejects.toMatchObject({ code: 'response_not_found' })
    const other = await newConversation()
    await expect(server.client.response(other, record.response_id)).rejects.toMatchObject({ status: 404 })
  })

  it('[C1] records the repository, the branch and the languages of the sent files', async () => {
    const { project } = server.config
    execFileSync('git', ['init', '-q', '-b', 'feature', project])
    execFileSync('git', [
      '-C',
      project,
      'remote',
      'add',
      'origin',
      'https://me:key@example.org/acme/shop.git',
    ])
    writeFileSync(join(project, 'cart.ts'), 'export {}\n')
    const id = await newConversation()
    expect((await server.client.conversation(id)).expires_at).toBeNull()
    parts.push({ events: says('answer') })
    await sent(id, 'question', { active_files: ['cart.ts'] })
    const { items } = await server.client.responses(id)
    const record = await server.client.response(id, items[0]?.response_id ?? '')
    expect(record).toMatchObject({ repository: 'acme/shop', branch: 'feature', languages: ['typescript'] })
    rmSync(join(project, '.git'), { recursive: true })
    rmSync(join(project, 'cart.ts'))
  })

  it('[C1] records failed requests too, and returns large payloads in full', async () => {
    const id = await newConversation()
    parts.push({ status: 400, body: { error: { message: 'no', code: 'bad' } } })
    await sent(id, 'x'.repeat(900_000))
    const large = 'y'.repeat(900_000)
    parts.push({ events: says(large) })
    await sent(id, 'z'.repeat(900_000))
    const { items } = await server.client.responses(id)
    expect(items).toMatchObject([{ status: 'completed' }, { status: 'failed', error: { code: 'bad' } }])
    const record = await server.client.response(id, items[0]?.response_id ?? '')
    expect(JSON.parse(record.request)).toEqual(model.requests.at(-1))
    expect(record.request.length).toBeGreaterThan(1_800_000)
  })

  it('[C8] shows the context of the model at an event, by origin', async () => {
    const id = await newConversation()
    await sent(id, 'one')
    const { head_event_number } = await server.client.conversation(id)
    await sent(id, 'two')
    const then = await server.client.context(id, { at: head_event_number })
    expect(then.parts.at(-1)).toMatchObject({ origin: { type: 'message', role: 'user' }, sent: true })
    const now = await server.client.context(id)
    expect(now.chain).toBe('follow_up')
    expect(now.parts.slice(2)).toMatchObject([{ sent: true, why: 'new since the last response' }])
    expect(now.held).toMatchObject({ parts: 2 })
    expect(now.tokens.not_sent).toBe(now.held.tokens)
    expect(now.tokens.sent).toBeGreaterThan(0)
    expect(then.next).toBe(null)
    expect(now.next).toMatchObject({ chain: 'follow_up' })
    expect(now.next?.parts).toHaveLength(0)
    expect(now.next?.held).toMatchObject({ parts: 4 })
    await restart({ model: 'other' })
    const next = (await server.client.context(id)).next
    expect(next).toMatchObject({ chain: 'changed' })
    expect(next?.parts.every((part) => part.sent)).toBe(true)
    await expect(server.client.context(id, { at: 1 })).rejects.toMatchObject({ code: 'response_not_found' })
  })
})
