import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TENANT } from '../../test/support/frames.ts'
import { allFrames, ask, finalOf, frameWhen, ofKind, runsOf, transcriptOf } from '../../test/support/runs.ts'
import { jsonBody, startTestServer, type TestServer } from '../../test/support/server.ts'
import type { Frame } from '../protocol/frames.ts'
import { newId } from '../protocol/ids.ts'

/** A workspace that this server does not have, so that no checkpoint events get in between. */
const elsewhere = { workspace_id: 'Another.Place' }

describe('forks over HTTP', () => {
  let server: TestServer
  let project: string
  const at = (path: string) => join(project, path)
  const inCopy = (id: string, path: string) => join(server.config.dataDir, 'workspaces', id, path)
  const questions = async (id: string) =>
    (await server.client.messages(id)).items.filter((message) => message.role === 'user')

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-forks-'))
    server = await startTestServer({ project, tools: { run_command: 'allow' } })
  })
  afterAll(async () => {
    await server.close()
    rmSync(project, { recursive: true, force: true })
  })

  it('[C5] answers from the history of the root in a fork 200 levels deep', {
    timeout: 120_000,
  }, async () => {
    const root = (await server.client.createConversation()).id
    await ask(server, root, 'I am devansh')
    let id = root
    for (let depth = 0; depth < 200; depth++) {
      const fork = await server.client.fork(id)
      expect(fork.parent?.conversation_id).toBe(id)
      id = fork.id
      if (depth % 50 === 25) await ask(server, id, `message at depth ${depth}`)
    }
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is devansh.')
    const line = await server.ledger.line(TENANT, id as never)
    expect(line).toHaveLength(201)
    const said = (await allFrames(server, id)).flatMap((frame) =>
      frame.kind === 'message.user' ? (frame as Frame<'message.user'>).content : [],
    )
    expect((await questions(id)).map((message) => message.content)).toEqual(said)
    expect(said).toEqual([
      'I am devansh',
      'message at depth 25',
      'message at depth 75',
      'message at depth 125',
      'message at depth 175',
      'what is my name',
    ])
    const family = await server.client.tree(id)
    expect(family).toMatchObject({ root })
    expect(family.items).toHaveLength(201)
    expect((await server.client.branches(root)).items).toHaveLength(1)
  })

  it('[C5] shows a half answer as incomplete after a fork, and still answers from the history', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    const frames = await ask(server, id, '!say 30')
    const middle = ofKind(frames, 'message.delta')[3]?.event_id ?? 0
    const fork = await server.client.fork(id, { event_number: middle })
    const run = runsOf(transcriptOf(await allFrames(server, fork.id))).at(-1)
    expect(run).toMatchObject({ status: 'incomplete' })
    expect(run?.items.map((item) => item.type === 'text' && item.status)).toContain('incomplete')
    expect(finalOf(await ask(server, fork.id, 'what is my name')).response_text).toBe('Your name is devansh.')
  })

  it('rewords a message in a fork, and leaves the parent unchanged', async () => {
    const { id } = await server.client.createConversation({ title: 'Names' })
    await ask(server, id, 'I am devansh')
    await ask(server, id, 'I am nobody')
    const [, second] = await questions(id)
    const fork = await server.client.fork(id, { message_id: second?.message_id ?? '', title: 'Other words' })
    expect(fork).toMatchObject({ title: 'Other words', parent: { conversation_id: id }, restored: null })
    await ask(server, fork.id, 'I am somebody')
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is nobody.')
    expect(finalOf(await ask(server, fork.id, 'what is my name')).response_text).toBe(
      'Your name is somebody.',
    )
  })

  it('refuses unknown places and invalid requests', async () => {
    const { id } = await server.client.createConversation(elsewhere)
    const refused = async (body: unknown) => {
      const response = await server.call(`/conversations/${id}/fork`, jsonBody(body))
      return [response.status, (await response.json()).code]
    }
    expect(await refused({ event_number: 99 })).toEqual([404, 'event_not_found'])
    expect(await refused({ message_id: newId('msg') })).toEqual([404, 'message_not_found'])
    expect(await refused({ event_number: 1, message_id: 'm' })).toEqual([400, 'invalid_request'])
    expect(await refused({ files: 'move' })).toEqual([400, 'invalid_request'])
    expect(await refused({ event_number: 0 })).toEqual([400, 'invalid_request'])
    expect(await refused({ files: 'copy' })).toEqual([409, 'workspace_not_here'])
    const token = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const response = await server.call(`/conversations/${id}/fork`, {
      ...jsonBody({ files: 'restore' }),
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
    })
    expect(response.status).toBe(403)
    expect((await server.client.branches(id)).items).toEqual([])
  })

  it('restores the files of the place with files: restore, and keeps a safety checkpoint in the parent', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":"plan.txt","content":"first"}')
    await ask(server, id, '!write_to_file {"path":"plan.txt","content":"second"}')
    const [, second] = await questions(id)
    const fork = await server.client.fork(id, { message_id: second?.message_id ?? '', files: 'restore' })
    expect(fork.restored).toMatchObject({ restored: ['plan.txt'], skipped: [] })
    expect(fork.workspace_id).toBe(server.config.workspaceId)
    expect(readFileSync(at('plan.txt'), 'utf8')).toBe('first')
    await server.client.restore(id, { checkpoint_id: fork.restored?.safety_checkpoint ?? '' })
    expect(readFileSync(at('plan.txt'), 'utf8')).toBe('second')
    // A fork at the end of the line has nothing to restore.
    expect((await server.client.fork(fork.id, { files: 'restore' })).restored).toBe(null)
  })

  it('refuses files: restore while a run is active in the workspace, and creates no fork', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    const [first] = await questions(id)
    await server.client.sendMessage(id, { content: '!wait 30\n!say 60' })
    await frameWhen(server, id, 'message.delta')
    await expect(
      server.client.fork(id, { message_id: first?.message_id ?? '', files: 'restore' }),
    ).rejects.toMatchObject({ code: 'workspace_busy' })
    expect((await server.client.branches(id)).items).toEqual([])
    await server.client.stop(id)
  })

  it('runs two forks with their own working copies in parallel without mixing files', {
    timeout: 60_000,
  }, async () => {
    const { id } = await server.client.createConversation()
    writeFileSync(at('run.sh'), '#!/bin/sh\necho hi\n', { mode: 0o755 })
    await ask(server, id, '!write_to_file {"path":"shared.txt","content":"from the parent"}')
    const before = readFileSync(at('shared.txt'), 'utf8')
    const [one, two] = await Promise.all([
      server.client.fork(id, { files: 'copy' }),
      server.client.fork(id, { files: 'copy' }),
    ])
    expect(one.workspace_id).toBe(`${server.config.workspaceId}.${one.id}`)
    for (const fork of [one, two]) expect(readFileSync(inCopy(fork.id, 'shared.txt'), 'utf8')).toBe(before)
    const work = (name: string) =>
      [
        `!write_to_file {"path":"shared.txt","content":"from ${name}"}`,
        `!run_command {"command":"sleep 0.3; for i in 1 2 3 4 5; do echo ${name} >> log.txt; sleep 0.05; done; ./run.sh"}`,
        `!write_to_file {"path":"only-${name}.txt","content":"${name}"}`,
        '!run_command {"command":"git rev-parse --show-toplevel"}',
      ].join('\n')
    const runs = await Promise.all([ask(server, one.id, work('one')), ask(server, two.id, work('two'))])
    const [first, second] = runs.map((frames) => ofKind(frames, 'message.user')[0])
    const [firstEnd, secondEnd] = runs.map((frames) => frames.at(-1)?.server_timestamp ?? '')
    expect((first?.server_timestamp ?? '') < (secondEnd ?? '')).toBe(true)
    expect((second?.server_timestamp ?? '') < (firstEnd ?? '')).toBe(true)
    for (const [name, fork] of [['one', one] as const, ['two', two] as const]) {
      expect(readFileSync(inCopy(fork.id, 'shared.txt'), 'utf8')).toBe(`from ${name}`)
      expect(readFileSync(inCopy(fork.id, 'log.txt'), 'utf8')).toBe(`${name}\n`.repeat(5))
      expect(readdirSync(inCopy(fork.id, '.')).toSorted()).toEqual(
        [
          'log.txt',
          `only-${name}.txt`,
          ...readdirSync(project).filter((file) => !file.startsWith('.')),
        ].toSorted(),
      )
    }
    expect(readFileSync(at('shared.txt'), 'utf8')).toBe(before)
    expect(existsSync(at('log.txt'))).toBe(false)
    // The copies must not see the project's git repository.
    for (const frames of runs) {
      const outputs = ofKind(frames, 'tool.output').map((frame) => JSON.stringify(frame.output))
      expect(outputs.at(-1)).toMatch(/not a git repository/)
    }
    const session = await server.client.session(one.id)
    expect(session.changed_files.map((file) => file.path)).toContain('only-one.txt')
    const { checkpoint_id } = (await questions(one.id)).at(-1) ?? {}
    await server.client.restore(one.id, { checkpoint_id: checkpoint_id ?? '' })
    expect(existsSync(inCopy(one.id, 'only-one.txt'))).toBe(false)
    expect(readFileSync(inCopy(one.id, 'shared.txt'), 'utf8')).toBe(before)
    expect(readFileSync(inCopy(two.id, 'shared.txt'), 'utf8')).toBe('from two')
    await ask(server, two.id, 'hello')
    const compared = await server.client.compare(one.id, two.id)
    expect(compared.files?.map((file) => file.path)).toContain('shared.txt')
  })

  it('fills a working copy with the files as they were at the place', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":"then.txt","content":"then"}')
    await ask(server, id, '!write_to_file {"path":"then.txt","content":"now"}')
    const [first, second] = await questions(id)
    const copyAt = async (message: string | undefined) => {
      const fork = await server.client.fork(id, { message_id: message ?? '', files: 'copy' })
      return (path: string) => inCopy(fork.id, path)
    }
    expect(existsSync((await copyAt(first?.message_id))('then.txt'))).toBe(false)
    expect(readFileSync((await copyAt(second?.message_id))('then.txt'), 'utf8')).toBe('then')
    const fork = await server.client.fork(id, { files: 'copy' })
    expect(readFileSync(inCopy(fork.id, 'then.txt'), 'utf8')).toBe('now')
    await server.client.deleteConversation(fork.id)
    expect(existsSync(inCopy(fork.id, 'then.txt'))).toBe(true)
    await server.client.collect({ now: true })
    expect(existsSync(inCopy(fork.id, '.'))).toBe(false)
  })

  it('keeps a working copy while any conversation uses it, with the files that tools overwrote', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    const owner = await server.client.fork(id, { files: 'copy' })
    const guest = await server.client.fork(owner.id)
    expect(guest.workspace_id).toBe(owner.workspace_id)
    writeFileSync(inCopy(owner.id, '.env'), 'mine')
    await ask(server, guest.id, 'before')
    const before = (await questions(guest.id)).at(-1)?.checkpoint_id ?? ''
    await ask(server, guest.id, '!write_to_file {"path":".env","content":"by the agent"}')
    const [first] = await questions(id)
    await server.client.deleteMessage(id, first?.message_id ?? '')
    await server.client.deleteConversation(owner.id)
    await server.client.collect({ now: true })
    await server.files.dropUnreachable(0)
    await ask(server, guest.id, 'still there')
    expect(readFileSync(inCopy(owner.id, '.env'), 'utf8')).toBe('by the agent')
    const restored = await server.client.restore(guest.id, { checkpoint_id: before })
    expect(restored).toMatchObject({ restored: ['.env'], skipped: [] })
    expect(readFileSync(inCopy(owner.id, '.env'), 'utf8')).toBe('mine')
    await server.client.deleteConversation(guest.id)
    await server.client.collect({ now: true })
    expect(existsSync(inCopy(owner.id, '.'))).toBe(false)
  })

  it('[W3] applies the ignore rules of the project to a working copy, and captures files that tools wrote', async () => {
    writeFileSync(at('.gitignore'), '*.secret\n')
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":".tool","content":"by a tool"}')
    const fork = await server.client.fork(id, { files: 'copy' })
    expect(readFileSync(inCopy(fork.id, '.tool'), 'utf8')).toBe('by a tool')
    await ask(server, fork.id, '!run_command {"command":"echo x > a.secret; echo y > b.txt; echo z > .tool"}')
    await ask(server, fork.id, 'hello')
    const { changed_files } = await server.client.session(fork.id)
    expect(changed_files.map((file) => file.path)).toContain('b.txt')
    expect(changed_files.map((file) => file.path)).not.toContain('a.secret')
    expect(changed_files.find((file) => file.path === '.tool')?.status).not.toBe('deleted')
    rmSync(at('.gitignore'))
  })

  it('finds the files as they were at a place, whatever happened since', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":"v.txt","content":"1"}')
    const ended = (await server.client.conversation(id)).head_event_number
    await ask(server, id, '!write_to_file {"path":"v.txt","content":"2"}')
    const middle = (await server.client.conversation(id)).head_event_number - 3
    const fork = await server.client.fork(id)
    await server.client.session(fork.id)
    const filesAt = async (of: string, event_number?: number) => {
      const copy = await server.client.fork(of, {
        files: 'copy',
        ...(event_number === undefined ? {} : { event_number }),
      })
      return readFileSync(inCopy(copy.id, 'v.txt'), 'utf8')
    }
    writeFileSync(at('v.txt'), 'by hand')
    expect(await filesAt(id, ended)).toBe('1')
    expect(await filesAt(fork.id, ended)).toBe('1')
    // A line that ends in the middle of a run has no checkpoint for its end, so the current files are used.
    const half = await server.client.fork(id, { event_number: middle })
    expect(await filesAt(half.id)).toBe('by hand')
    const [, second] = await questions(id)
    await server.client.deleteMessage(id, second?.message_id ?? '')
    expect(await filesAt(id, ended)).toBe('1')
    await server.client.collect({ now: true })
    expect(await filesAt(id, ended)).toBe('1')
  })

  it('restores files from a working copy into the project', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    const fork = await server.client.fork(id, { files: 'copy' })
    await ask(server, fork.id, '!write_to_file {"path":"tried.txt","content":"it works"}')
    const { approved_commit } = await server.client.approve(fork.id)
    await server.client.restore(id, { checkpoint_id: approved_commit, paths: ['tried.txt'] })
    expect(readFileSync(at('tried.txt'), 'utf8')).toBe('it works')
  })

  it('creates one fork per Idempotency-Key, and restores files once', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":"once.txt","content":"agent"}')
    const [first] = await questions(id)
    const body = { message_id: first?.message_id ?? '', files: 'restore' as const }
    const key = { idempotencyKey: newId('msg') }
    const fork = await server.client.fork(id, body, key)
    expect(fork.restored?.deleted).toEqual(['once.txt'])
    writeFileSync(at('once.txt'), 'mine')
    expect((await server.client.fork(id, body, key)).id).toBe(fork.id)
    expect(readFileSync(at('once.txt'), 'utf8')).toBe('mine')
  })

  it('compares the current files of a working copy, including changes of the last run', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    const fork = await server.client.fork(id, { files: 'copy' })
    await ask(server, fork.id, '!write_to_file {"path":"only-here.txt","content":"new\\n"}')
    const { files } = await server.client.compare(id, fork.id)
    expect(files).toMatchObject([{ path: 'only-here.txt', status: 'added' }])
  })

  it('compares two lines: where they diverge, the messages since then, and the files', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    const fork = await server.client.fork(id)
    await ask(server, id, '!write_to_file {"path":"side.txt","content":"left\\n"}')
    await ask(server, id, 'left again')
    await ask(server, fork.id, '!write_to_file {"path":"side.txt","content":"right\\n"}')
    await ask(server, fork.id, 'right again')
    const compared = await server.client.compare(id, fork.id, { diff: true })
    expect(compared.parted_after).toBe(fork.parent?.event_number)
    expect(compared.from.messages.map((message) => message.content)).toContain('left again')
    expect(compared.from.messages.map((message) => message.content)).not.toContain('I am devansh')
    expect(compared.to.messages.filter((message) => message.role === 'user')).toHaveLength(2)
    expect(compared.files).toMatchObject([
      { path: 'side.txt', status: 'modified', additions: 1, deletions: 1 },
    ])
    expect(compared.files?.[0]?.diff).toContain('+right')
    expect((await server.client.compare(id, fork.id, { limit: 1 })).from).toMatchObject({ has_more: true })
    const other = await server.client.createConversation(elsewhere)
    expect(await server.client.compare(id, other.id)).toMatchObject({ parted_after: 0, files: null })
    await expect(server.client.compare(id, newId('conv'))).rejects.toMatchObject({ status: 404 })
  })

  it('serves the /commands and /threads aliases with the same handlers', async () => {
    const call = async (method: string, path: string, body?: unknown) => {
      const { body: text, headers } = jsonBody(body)
      const response = await fetch(`${server.url}${path}`, {
        method,
        headers: { Authorization: `Bearer ${server.token}`, ...headers },
        ...(method === 'GET' ? {} : { body: text ?? null }),
      })
      return { status: response.status, body: await response.json() }
    }
    const made = await call('POST', '/commands/create-thread', { title: 'A thread', ...elsewhere })
    expect(made).toMatchObject({ status: 201, body: { title: 'A thread', parent_thread_id: null } })
    const { thread_id } = made.body
    expect(thread_id).toBe(made.body.id)
    const forked = await call('POST', '/commands/fork-thread', {
      source_thread_id: thread_id,
      event_number: 1,
      title: 'Fork',
    })
    expect(forked).toMatchObject({
      status: 201,
      body: { parent_thread_id: thread_id, fork_event_number: 1, new_thread_id: forked.body.id },
    })
    const older = { thread_id, from_event_number: 1, title: 'Fork' }
    expect((await call('POST', '/commands/fork-thread', older)).body.parent_thread_id).toBe(thread_id)
    const own = (await server.client.createConversation()).id
    const sent = await call('POST', '/commands/send-message', { thread_id: own, content: 'hello' })
    expect(sent).toMatchObject({ status: 202, body: { queue_position: 0 } })
    await frameWhen(server, own, 'final')
    expect((await call('GET', '/threads?limit=1')).body.items).toHaveLength(1)
    const [listed] = (await call('GET', '/threads?limit=1')).body.items
    expect(listed.thread_id).toBe(listed.id)
    expect((await call('GET', `/threads/${own}/messages`)).body.items[0]).toMatchObject({
      content: 'hello',
      thread_id: own,
      checkpoint_id: expect.stringMatching(/^[0-9a-f]{40}$/),
    })
    expect((await call('GET', `/threads/${thread_id}/branches`)).body.items).toContainEqual(
      expect.objectContaining({
        thread_id: forked.body.new_thread_id,
        parent_thread_id: thread_id,
        fork_event_number: 1,
      }),
    )
    const head = (await call('GET', `/threads/${own}/head`)).body
    expect(head.thread_id).toBe(own)
    expect(head.head_event_number).toBeGreaterThan(2)
    expect((await call('GET', `/threads/${newId('conv')}/head`)).status).toBe(404)
    const broken = await server.call('/commands/send-message', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: Buffer.concat([
        Buffer.from(`{"thread_id":"${own}","content":"`),
        Buffer.of(0xe9),
        Buffer.from('"}'),
      ]),
    })
    expect(await broken.json()).toMatchObject({ code: 'invalid_utf8' })
    expect(await call('POST', '/commands/send-message', { content: 'to nobody' })).toMatchObject({
      status: 400,
    })
    expect(await call('POST', '/commands/send-message', { thread_id: '\ud800', content: 'x' })).toMatchObject(
      {
        status: 404,
      },
    )
    expect(await call('POST', '/commands/fork-thread', [])).toMatchObject({ status: 400 })
    const anonymous = await fetch(`${server.url}/threads`)
    expect(anonymous.status).toBe(401)
  })
})
