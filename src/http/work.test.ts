import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ask, finalOf, ofKind } from '../../test/support/runs.ts'
import { jsonBody, startTestServer, type TestServer } from '../../test/support/server.ts'
import { everythingIn, gitIn } from '../../test/support/workspace.ts'
import { repositoryFolder } from '../workspace/repository.ts'

/** Work sessions over HTTP, with the agent's tools, on real files. */
describe('work sessions', () => {
  let server: TestServer
  let id: string
  beforeAll(async () => {
    server = await startTestServer({ tools: { run_command: 'allow' } })
  })
  afterAll(() => server.close())
  beforeEach(async () => {
    for (const name of ['a.txt', 'b.txt', 'c.txt', 'sub']) rmSync(at(name), { recursive: true, force: true })
    writeFileSync(at('a.txt'), 'one\n')
    id = (await server.client.createConversation()).id
    await server.client.session(id)
  })

  const at = (path: string) => join(server.config.project, path)
  const read = (path: string) => readFileSync(at(path), 'utf8')
  const repository = () => repositoryFolder(server.config.dataDir, id)
  const git = (...args: string[]) => gitIn(repository(), ...args)
  const write = (path: string, content: string) => `!write_to_file ${JSON.stringify({ path, content })}`
  const labels = async () => (await server.client.checkpoints(id)).items.map((item) => item.label)

  it('[W3] shows a file that checkpoints now leave out as such, not as deleted, and a reset keeps it', async () => {
    writeFileSync(at('b.txt'), 'log\n')
    await server.client.approve(id, {})
    writeFileSync(at('.gitignore'), 'b.txt\n')
    rmSync(at('a.txt'))
    const { changed_files } = await server.client.session(id)
    const left = { path: 'b.txt', left_out: 'gitignore', additions: 0, deletions: 0 }
    expect(changed_files.find(({ path }) => path === 'b.txt')).toMatchObject(left)
    expect(changed_files.find(({ path }) => path === 'a.txt')).not.toHaveProperty('left_out')
    const { files } = await server.client.diff(id, {})
    expect(files.find(({ path }) => path === 'b.txt')).toMatchObject({ ...left, diff: null })
    expect(files.find(({ path }) => path === 'a.txt')?.diff).toContain('-one')
    await server.client.reset(id, {})
    expect([read('a.txt'), read('b.txt')]).toEqual(['one\n', 'log\n'])
    rmSync(at('.gitignore'), { force: true })
  })

  it('[W6] gives an empty approval one parent, and leaves the branch of the empty session in place', async () => {
    const first = git('rev-parse', 'main').trim()
    const { approved_commit } = await server.client.approve(id)
    expect(git('rev-list', '--parents', '-n', '1', approved_commit).trim().split(' ')).toEqual([
      approved_commit,
      first,
    ])
    expect(git('rev-parse', 'session_1').trim()).toBe(first)
    expect(git('rev-parse', 'main', 'session_2').trim().split('\n')).toEqual([
      approved_commit,
      approved_commit,
    ])
  })

  it('[W1] makes a checkpoint at the start and before each message, which carries its id', async () => {
    const frames = await ask(
      server,
      id,
      `${write('a.txt', 'two\n')}\nplease, and at some length that is not kept whole`,
    )
    finalOf(frames)
    const [message] = ofKind(frames, 'message.user')
    expect(message).toMatchObject({ work_session: 'session_1' })
    expect(gitIn(repository(), 'cat-file', 'blob', `${message?.checkpoint_id}:a.txt`)).toBe('one\n')
    expect(ofKind(frames, 'workspace.checkpoint')).toMatchObject([
      { checkpoint_id: message?.checkpoint_id, work_session: 'session_1', files: 1, changed: 0 },
    ])
    await ask(server, id, 'and again')
    const items = (await server.client.checkpoints(id)).items
    expect(items.map(({ label, work_session }) => [label, work_session])).toEqual([
      ['Before user message: and again', 'session_1'],
      [`Before user message: ${`${write('a.txt', 'two\n')} please`.slice(0, 50)}`, 'session_1'],
      ['Initial checkpoint', 'main'],
    ])
    expect(items[0]).toMatchObject({ changed: 1, files: 1 })
    const messages = (await server.client.messages(id)).items.filter((one) => one.role === 'user')
    expect(items.map((item) => item.message_id)).toEqual([
      messages[1]?.message_id,
      messages[0]?.message_id,
      null,
    ])
    expect(messages.map((one) => one.checkpoint_id)).toEqual([
      items[1]?.checkpoint_id,
      items[0]?.checkpoint_id,
    ])
    expect(await server.client.conversation(id)).toMatchObject({
      active_session: 'session_1',
      last_approved_at: null,
    })
  })

  it('[W4] previews, reports, records and undoes a restore', async () => {
    const frames = await ask(server, id, `${write('a.txt', 'two\n')}\n${write('b.txt', 'new\n')}`)
    const target = ofKind(frames, 'message.user')[0]?.checkpoint_id ?? ''
    const files = everythingIn(server.config.project)
    const preview = await server.client.restore(id, { checkpoint_id: target, dry_run: true })
    expect(preview).toMatchObject({
      restored: ['a.txt'],
      deleted: ['b.txt'],
      skipped: [],
      safety_checkpoint: null,
    })
    expect(everythingIn(server.config.project)).toEqual(files)
    const done = await server.client.restore(id, { checkpoint_id: target.slice(0, 8) })
    expect(done).toMatchObject({ restored_to: target, restored: ['a.txt'], deleted: ['b.txt'], skipped: [] })
    expect(read('a.txt')).toBe('one\n')
    expect((await labels()).slice(0, 2)).toEqual([`Restored to ${target}`, 'Before restore'])
    const events = (await server.client.events(id)).items
    expect(events.at(-1)).toMatchObject({
      kind: 'workspace.restored',
      restored: 1,
      deleted: 1,
      new_checkpoint: done.new_checkpoint,
      safety_checkpoint: done.safety_checkpoint,
    })
    await server.client.restore(id, { checkpoint_id: done.safety_checkpoint ?? '', paths: ['b.txt'] })
    expect([read('a.txt'), read('b.txt')]).toEqual(['one\n', 'new\n'])
    await server.client.restore(id, { checkpoint_id: done.safety_checkpoint ?? '' })
    expect(everythingIn(server.config.project)).toEqual(files)
  })

  it('[W6] approve merges the session into main, with the history that git users expect', async () => {
    await ask(server, id, write('a.txt', 'two\n'))
    writeFileSync(at('outside.txt'), 'by hand\n')
    expect(await server.client.session(id)).toMatchObject({
      active_session: 'session_1',
      session_ref: 'refs/heads/session_1',
      has_unapproved: true,
      last_approved_at: null,
      changed_files: [
        { path: 'a.txt', status: 'modified', additions: 1, deletions: 1, is_binary: false },
        { path: 'outside.txt', status: 'added', additions: 1, deletions: 0, is_binary: false },
      ],
    })
    const approved = await server.client.approve(id, { message: 'the two' })
    expect(approved).toMatchObject({ new_session: 'session_2', commits_approved: 2 })
    expect(read('a.txt')).toBe('two\n')
    await ask(server, id, write('a.txt', 'three\n'))
    await ask(server, id, 'more')

    expect(git('log', '--format=%s', 'main..session_2').split('\n').filter(Boolean)).toEqual([
      'Before user message: more',
      `Before user message: ${write('a.txt', 'three\n').slice(0, 50)}`,
    ])
    expect(git('log', '--merges', '--format=%s', 'main')).toBe('Approved: the two\n')
    expect(git('log', '--topo-order', '--format=%s', 'main').split('\n').filter(Boolean)).toEqual([
      'Approved: the two',
      'Before approval',
      `Before user message: ${write('a.txt', 'two\n').slice(0, 50)}`,
      'Initial checkpoint',
    ])
    expect(
      git('branch', '-a')
        .split('\n')
        .map((line) => line.slice(2)),
    ).toEqual(['main', 'session_1', 'session_2', ''])
    expect(git('branch', '--show-current')).toBe('session_2\n')
    expect(git('diff', '--stat', 'main', 'session_2')).toContain('a.txt | 2 +-')
    expect(git('fsck', '--full')).not.toMatch(/error|missing|broken/)
    const session = await server.client.session(id)
    expect(session.sessions).toMatchObject([
      { name: 'session_1', status: 'merged', approved_commit: approved.approved_commit, checkpoint_count: 2 },
      { name: 'session_2', status: 'active', closed_at: null, approved_commit: null, checkpoint_count: 2 },
    ])
    expect(session.sessions[0]?.closed_at).toBe(session.last_approved_at)
    expect(await server.client.conversation(id)).toMatchObject({
      active_session: 'session_2',
      last_approved_at: session.last_approved_at,
    })
    expect(
      (await server.client.events(id)).items.find((event) => event.kind === 'session.approved'),
    ).toMatchObject({
      closed_session: 'session_1',
      new_session: 'session_2',
      commits_approved: 2,
      message: 'the two',
    })
  })

  it('[W6] [W4] reset returns to main, and the discarded files can be restored from the abandoned session', async () => {
    await ask(
      server,
      id,
      `!run_command {"command":"echo made > c.txt; mkdir -p sub && echo x > sub/y"}\n${write('a.txt', 'two\n')}`,
    )
    const files = everythingIn(server.config.project)
    const done = await server.client.reset(id)
    expect(done).toMatchObject({ new_session: 'session_2', skipped: [], deleted: ['c.txt', 'sub/y'] })
    expect(read('a.txt')).toBe('one\n')
    expect(done.reset_to).toBe(git('rev-parse', 'main').trim())
    expect(git('rev-parse', 'session_2').trim()).toBe(done.reset_to)
    expect(git('rev-parse', 'session_1').trim()).toBe(done.pre_reset_checkpoint)
    expect(await server.client.session(id)).toMatchObject({
      active_session: 'session_2',
      has_unapproved: false,
      sessions: [
        { name: 'session_1', status: 'abandoned' },
        { name: 'session_2', status: 'active' },
      ],
    })
    expect((await labels())[0]).toBe('Before reset')
    await server.client.restore(id, { checkpoint_id: done.pre_reset_checkpoint ?? '' })
    expect(everythingIn(server.config.project)).toEqual(files)
  })

  it('[W8] refuses restore, reset and approve while a run is active, also in another conversation', async () => {
    const other = (await server.client.createConversation()).id
    const { run_id } = await server.client.sendMessage(other, { content: '!wait 5000\n!say 50' })
    await expect.poll(async () => (await server.client.queue(other)).active?.run_id).toBe(run_id)
    const { checkpoint_id } = (await server.client.checkpoints(id)).items[0] ?? { checkpoint_id: '' }
    const refused = { status: 409, code: 'workspace_busy' }
    await expect(server.client.approve(id)).rejects.toMatchObject(refused)
    await expect(server.client.reset(id)).rejects.toMatchObject(refused)
    await expect(server.client.restore(id, { checkpoint_id })).rejects.toMatchObject(refused)
    await expect(server.client.reset(other)).rejects.toMatchObject(refused)
    expect((await server.client.session(id)).active_session).toBe('session_1')
    await server.client.stop(other)
    await expect.poll(async () => (await server.client.queue(other)).active).toBe(null)
    expect(await server.client.approve(id)).toMatchObject({ new_session: 'session_2', commits_approved: 0 })
  })

  it('[W6] captures permissions and empty folders in an approval', async () => {
    mkdirSync(at('sub/empty'), { recursive: true })
    writeFileSync(at('b.txt'), 'private')
    await ask(server, id, 'hello')
    chmodSync(at('b.txt'), 0o600)
    mkdirSync(at('sub/another'))
    await server.client.approve(id)
    chmodSync(at('b.txt'), 0o644)
    rmSync(at('sub'), { recursive: true })
    await server.client.reset(id)
    expect(statSync(at('b.txt')).mode & 0o777).toBe(0o600)
    expect([existsSync(at('sub/empty')), existsSync(at('sub/another'))]).toEqual([true, true])
  })

  it('[W6] keeps working after the object store was lost', async () => {
    await ask(server, id, write('a.txt', 'two\n'))
    const store = join(server.config.dataDir, 'store/objects/pack')
    const [before] = (await server.client.checkpoints(id)).items
    for (const name of readdirSync(store)) rmSync(join(store, name))
    await ask(server, id, 'and on')
    expect(await server.client.session(id)).toMatchObject({ has_unapproved: false })
    await expect(
      server.client.restore(id, { checkpoint_id: before?.checkpoint_id ?? '' }),
    ).rejects.toMatchObject({
      code: 'checkpoint_not_found',
    })
    writeFileSync(at('a.txt'), 'three\n')
    await server.client.reset(id)
    expect(read('a.txt')).toBe('two\n')
    await server.client.approve(id)
  })

  it('accepts only known paths relative to the project', async () => {
    mkdirSync(at('sub'), { recursive: true })
    writeFileSync(at('sub/y'), '1')
    await ask(server, id, 'hello')
    const [last] = (await server.client.checkpoints(id)).items
    const checkpoint_id = last?.checkpoint_id ?? ''
    writeFileSync(at('sub/y'), '2')
    for (const path of ['/etc/passwd', '../x', 'a/../..', '.', 'nowhere', 'sub/y/z']) {
      const request = server.client.restore(id, { checkpoint_id, paths: [path] })
      await expect(request, path).rejects.toMatchObject({ code: 'invalid_request' })
    }
    await expect(server.client.diff(id, { path: '/etc/passwd' })).rejects.toMatchObject({
      code: 'invalid_request',
    })
    const since = await server.client.diff(id, { from: checkpoint_id, path: './sub/' })
    expect(since.files.map((file) => file.path)).toEqual(['sub/y'])
    expect((await server.client.restore(id, { checkpoint_id, paths: ['./sub//y'] })).restored).toEqual([
      'sub/y',
    ])
  })

  it('applies a request once when it is sent twice with one key', async () => {
    const options = { idempotencyKey: `once-${id}` }
    const first = await server.client.approve(id, { message: 'x' }, options)
    expect(await server.client.approve(id, { message: 'x' }, options)).toEqual(first)
    expect((await server.client.session(id)).active_session).toBe('session_2')
    await expect(server.client.approve(id, { message: 'y' }, options)).rejects.toMatchObject({
      code: 'idempotency_key_reused',
    })
  })

  it('shows differences between any two checkpoints, and to the current files', async () => {
    writeFileSync(at('b.txt'), Buffer.from([0, 1, 2]))
    writeFileSync(at('c.txt'), 'x\n'.repeat(1024 * 1024))
    await ask(server, id, 'first')
    writeFileSync(at('b.txt'), Buffer.from([0, 1, 3]))
    writeFileSync(at('c.txt'), 'y\n'.repeat(1024 * 1024))
    writeFileSync(at('a.txt'), 'one\nmore\n')
    await ask(server, id, 'second')
    writeFileSync(at('a.txt'), 'one\nmore\nnow\n')
    const [second, first] = (await server.client.checkpoints(id)).items
    const between = await server.client.diff(id, { from: first?.checkpoint_id, to: second?.checkpoint_id })
    expect(between.files).toMatchObject([
      {
        path: 'a.txt',
        status: 'modified',
        additions: 1,
        deletions: 0,
        is_binary: false,
        is_too_large: false,
      },
      { path: 'b.txt', is_binary: true, is_too_large: false, diff: null },
      { path: 'c.txt', is_binary: false, is_too_large: true, diff: null },
    ])
    expect(between.files[0]?.diff).toContain('@@ -1 +1,2 @@\n one\n+more\n')
    const since = await server.client.diff(id, { from: second?.checkpoint_id, path: 'a.txt' })
    expect(since).toMatchObject({ to: null, files: [{ path: 'a.txt', additions: 1 }] })
    expect((await server.client.diff(id, { path: 'nowhere' })).files).toEqual([])
    expect((await server.client.diff(id)).files.map((file) => file.path)).toEqual(['a.txt', 'b.txt', 'c.txt'])
  })

  it("lists the agent's edits with their message and checkpoint", async () => {
    const frames = await ask(server, id, `${write('a.txt', 'two\n')}\n!delete_file {"path":"a.txt"}`)
    const [message] = ofKind(frames, 'message.user')
    const { items } = await server.client.edits(id)
    expect(items).toMatchObject([
      { path: 'a.txt', change: 'deleted', additions: 0, deletions: 1, message_id: message?.message_id },
      {
        path: 'a.txt',
        change: 'modified',
        additions: 1,
        deletions: 1,
        checkpoint_id: message?.checkpoint_id,
      },
    ])
    expect(items[1]?.diff).toContain('-one\n+two\n')
    expect((await server.client.edits(id, { path: 'b.txt' })).items).toEqual([])
    const page = await server.client.edits(id, { limit: 1 })
    expect((await server.client.edits(id, { limit: 1, cursor: page.next_cursor ?? '' })).items).toEqual([
      items[1],
    ])
  })

  it('[W3] lists what a checkpoint left out', async () => {
    writeFileSync(at('.secret'), 'x')
    await ask(server, id, write('.made-by-agent', 'kept'))
    await ask(server, id, 'hello')
    const { checkpoint_id } = (await server.client.checkpoints(id)).items[0] ?? { checkpoint_id: '' }
    expect((await server.client.checkpoint(id, checkpoint_id)).left_out).toEqual([
      { path: '.secret', reason: 'hidden' },
      { path: '.waymark/', reason: 'hidden' },
    ])
    expect(git('cat-file', 'blob', `${checkpoint_id}:.made-by-agent`)).toBe('kept')
  })

  it('[W7] keeps a message when its snapshot fails, and leaves the files untouched', async () => {
    const packs = join(server.config.dataDir, 'store/objects/pack')
    execFileSync('mv', [packs, `${packs}-away`])
    writeFileSync(packs, '')
    writeFileSync(at('a.txt'), 'not saved yet\n')
    const frames = await ask(server, id, write('a.txt', 'two\n'))
    expect(frames.at(-1)).toMatchObject({
      kind: 'error',
      error: { code: 'snapshot_failed', source: 'server', is_retryable: true },
    })
    expect(ofKind(frames, 'message.user')).toHaveLength(1)
    expect(read('a.txt')).toBe('not saved yet\n')
    await expect(server.client.reset(id)).rejects.toMatchObject({ code: 'snapshot_failed', status: 500 })
    rmSync(packs)
    execFileSync('mv', [`${packs}-away`, packs])
    finalOf(await ask(server, id, write('a.txt', 'two\n')))
  })

  it('serves the /api/dialogs aliases with the same handlers', async () => {
    const call = (path: string, init: RequestInit = {}) =>
      fetch(`${server.url}/api/dialogs/${id}/${path}`, {
        ...init,
        headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' },
      })
    expect(await (await call('session')).json()).toMatchObject({ active_session: 'session_1' })
    expect(await (await call('approve', { method: 'POST' })).json()).toMatchObject({
      new_session: 'session_2',
    })
    expect(await (await call('reset', { method: 'POST' })).json()).toMatchObject({ new_session: 'session_3' })
    const { checkpoint_id } = (await server.client.checkpoints(id)).items[0] ?? { checkpoint_id: '' }
    const restored = await call('restore', { method: 'POST', body: JSON.stringify({ checkpoint_id }) })
    expect(await restored.json()).toMatchObject({ restored_to: checkpoint_id })
    expect((await fetch(`${server.url}/api/dialogs/${id}/session`)).status).toBe(401)
  })

  it('refuses unknown checkpoints, missing scopes and workspaces of other servers', async () => {
    const post = (path: string, body: object, token = server.token) =>
      server.call(`/conversations/${path}`, {
        ...jsonBody(body),
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      })
    const code = async (response: Response) => ((await response.json()) as { code: string }).code
    expect(await code(await post(`${id}/restore`, { checkpoint_id: 'f'.repeat(40) }))).toBe(
      'checkpoint_not_found',
    )
    expect(await code(await post(`${id}/restore`, { checkpoint_id: 'main' }))).toBe('invalid_request')
    const other = (await server.client.createConversation()).id
    await server.client.session(other)
    const { checkpoint_id } = (await server.client.checkpoints(other)).items[0] ?? { checkpoint_id: '' }
    expect(await code(await post(`${id}/restore`, { checkpoint_id }))).toBe('checkpoint_not_found')
    const reader = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    for (const path of ['approve', 'reset', 'restore']) {
      expect(await code(await post(`${id}/${path}`, { checkpoint_id }, reader))).toBe('missing_scope')
    }
    const stranger = await server.tokenFor('stranger', ['conversations:read', 'workspace:write'])
    expect(await code(await post(`${id}/reset`, {}, stranger))).toBe('conversation_not_found')
    const elsewhere = (await server.client.createConversation({ workspace_id: 'Another.Place' })).id
    expect(await code(await post(`${elsewhere}/reset`, {}))).toBe('workspace_not_here')
    await expect(server.client.session(elsewhere)).rejects.toMatchObject({ code: 'workspace_not_here' })
  })

  it("never changes anything in the user's git repository", async () => {
    const project = server.config.project
    execFileSync('git', ['init', '-q', project])
    execFileSync('git', ['-C', project, 'add', 'a.txt'])
    const before = everythingIn(join(project, '.git'))
    const frames = await ask(server, id, write('a.txt', 'two\n'))
    await server.client.session(id)
    await server.client.approve(id)
    await server.client.reset(id)
    await server.client.restore(id, { checkpoint_id: ofKind(frames, 'message.user')[0]?.checkpoint_id ?? '' })
    await server.client.diff(id)
    expect(everythingIn(join(project, '.git'))).toEqual(before)
    rmSync(join(project, '.git'), { recursive: true })
  })

  it('frees objects when the last conversation that has them is deleted', async () => {
    mkdirSync(at('sub'), { recursive: true })
    writeFileSync(at('sub/only-here'), 'unique')
    await ask(server, id, 'hello')
    const store = join(server.config.dataDir, 'store')
    const blob = git('rev-parse', 'session_1:sub/only-here').trim()
    const other = (await server.client.createConversation()).id
    await server.client.session(other)
    rmSync(at('sub'), { recursive: true })
    await ask(server, other, 'hello')
    await server.client.deleteConversation(id)
    await server.client.collect({ now: true })
    await server.files.dropUnreachable(0)
    expect(() => gitIn(store, 'cat-file', '-e', blob)).not.toThrow()
    await server.client.deleteConversation(other)
    await server.client.collect({ now: true })
    await server.files.dropUnreachable(0)
    expect(() => gitIn(store, 'cat-file', '-e', blob)).toThrow()
    expect(gitIn(store, 'fsck', '--full')).not.toMatch(/error|missing|broken/)
  })
})
