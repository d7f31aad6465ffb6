import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { allFrames, ask, ofKind } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { onPostgres } from '../support/stores.ts'

/** What the single-engine tests of these features show in detail, once on each engine. */
describe.each(['SQLite', 'Postgres'])('history on %s', (engine) => {
  const name = `history_${randomBytes(4).toString('hex')}`
  let server: TestServer
  let id: string
  beforeAll(async () => {
    const url = inject('postgresUrl')
    if (engine === 'Postgres') await onPostgres(url, `create database ${name}`)
    const databaseUrl = engine === 'Postgres' ? `${url}/${name}` : null
    server = await startTestServer({ databaseUrl, tools: { run_command: 'allow' } })
    id = (await server.client.createConversation()).id
  })
  afterAll(async () => {
    await server.close()
    if (engine === 'Postgres') await onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`)
  })

  it('imports a session, and later only its new entries', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const head = { agent: 'codex', session_id: 'one', folder: null, is_here: false, started_at: at }
    const entries = [
      { type: 'message', at, text: 'a question' },
      { type: 'call', at, call_id: 'c', name: 'exec_command', input: '{"cmd":"ls"}' },
      { type: 'output', at, call_id: 'c', output: 'printed', is_error: false },
      { type: 'text', at, text: 'an answer' },
    ]
    const send = (all: unknown[]) =>
      server.client.importSession(new Blob([all.map((one) => `${JSON.stringify(one)}\n`).join('')]).stream())
    const first = await send([head, ...entries])
    expect(first).toMatchObject({ status: 'imported', added: 4 })
    expect(await send([head, ...entries, { type: 'text', at, text: 'and more' }])).toMatchObject({
      status: 'updated',
      added: 1,
      conversation_id: first.conversation_id,
    })
    const grown = [
      head,
      ...entries,
      { type: 'text', at, text: 'and more' },
      { type: 'model', at, model: 'm' },
    ]
    expect(await send(grown)).toMatchObject({ status: 'updated', added: 1 })
    expect(await send(grown)).toMatchObject({ status: 'present', added: 0 })
    const frames = await allFrames(server, first.conversation_id)
    expect(ofKind(frames, 'message.delta').map(({ delta }) => delta)).toEqual(['an answer', 'and more'])
    expect((await server.client.search({ q: 'printed' })).items).toHaveLength(1)
  })

  it('blames, counts, undoes and redoes', async () => {
    await ask(server, id, 'first\n!write_to_file {"path":"a.txt","content":"one\\n"}')
    await ask(server, id, 'second\n!run_command {"command":"echo two >> a.txt; exit 1"}')
    const { lines, authors } = await server.client.blame(id, 'a.txt')
    expect(lines.map(({ author }) => authors[author]?.tool)).toEqual(['write_to_file', 'run_command'])
    const { totals, tools } = await server.client.stats({ conversation_id: id })
    expect(totals).toMatchObject({ runs: 2, calls: 2, failed_calls: 1, edits: 2, files: 1 })
    expect(tools[0]).toMatchObject({ tool: 'run_command', failed: 1 })
    await server.client.changeConversation(id, { title: 'Named' })
    await server.client.reset(id, {})
    expect(readdirSync(server.config.project)).not.toContain('a.txt')
    const { items } = await server.client.operations({ conversation_id: id })
    expect(items.map(({ kind }) => kind)).toEqual(['files.reset', 'conversation.changed'])
    for (const _ of items) await server.client.undo({})
    expect(readFileSync(join(server.config.project, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
    expect((await server.client.conversation(id)).is_titled).toBe(false)
    for (const _ of items) await server.client.redo({})
    expect((await server.client.conversation(id)).title).toBe('Named')
    expect(readdirSync(server.config.project)).not.toContain('a.txt')
  })

  it('lists why an operation can no longer be undone', async () => {
    const problems = async () => {
      const { items } = await server.client.operations({ conversation_id: id })
      return Object.fromEntries(items.map(({ kind, problem }) => [kind, problem]))
    }
    await ask(server, id, 'a question\n!write_to_file {"path":"a.txt","content":"one\\n"}')
    await server.client.changeConversation(id, { title: 'Named' })
    await server.client.approve(id, {})
    const fork = await server.client.fork(id, {})
    expect(new Set(Object.values(await problems()))).toEqual(new Set([null]))
    await server.client.deleteConversation(fork.id)
    await server.client.deleteConversation(id)
    // Undoing the deletions first makes it possible.
    expect(new Set(Object.values(await problems()))).toEqual(new Set([null]))
    await server.client.collect({ now: true })
    expect(new Set(Object.values(await problems()))).toEqual(
      new Set(['The conversation was deleted permanently.']),
    )
    await expect(server.client.undo({})).rejects.toMatchObject({ code: 'conversation_not_found' })
    // Titles and paths went with the conversation.
    const { items } = await server.client.operations({ conversation_id: id })
    expect(items.length).toBeGreaterThan(0)
    expect(JSON.stringify(items)).not.toContain('Named')
  })

  it('leaves a later approval of another conversation in effect', async () => {
    id = (await server.client.createConversation()).id
    const write = (content: string) => `!write_to_file ${JSON.stringify({ path: 'a.txt', content })}`
    const other = (await server.client.createConversation()).id
    await ask(server, id, write('one\n'))
    await server.client.approve(id, {})
    await ask(server, other, write('two\n'))
    await server.client.approve(other, {})
    await ask(server, id, write('three\n'))
    await server.client.approve(id, {})
    const { approved_checkpoint } = await server.client.session(id)
    expect(await server.client.undo({ conversation_id: other })).toMatchObject({ is_undone: true })
    expect((await server.client.session(id)).approved_checkpoint).toBe(approved_checkpoint)
    expect(await server.client.redo({ conversation_id: other })).toMatchObject({ is_undone: false })
    expect((await server.client.session(id)).approved_checkpoint).toBe(approved_checkpoint)
    expect((await server.client.session(id)).changed_files).toEqual([])
  })

  it('redoes a reset to what another conversation approved', async () => {
    id = (await server.client.createConversation()).id
    const other = (await server.client.createConversation()).id
    await ask(server, other, '!write_to_file {"path":"a.txt","content":"approved\\n"}')
    await server.client.approve(other, {})
    await ask(server, id, '!write_to_file {"path":"a.txt","content":"changed\\n"}')
    await server.client.reset(id, {})
    const file = () => readFileSync(join(server.config.project, 'a.txt'), 'utf8')
    expect(file()).toBe('approved\n')
    await server.client.undo({})
    expect(file()).toBe('changed\n')
    expect(await server.client.redo({})).toMatchObject({ is_undone: false })
    expect(file()).toBe('approved\n')
  })

  it('keeps the files of a folder that took the place of a restored file, and says so', async () => {
    id = (await server.client.createConversation()).id
    const at = (path: string) => join(server.config.project, path)
    await ask(server, id, '!write_to_file {"path":"docs","content":"a file\\n"}')
    const first = (await server.client.checkpoints(id)).items.at(-1)?.checkpoint_id ?? ''
    await ask(server, id, 'a checkpoint of it')
    const [withFile] = (await server.client.checkpoints(id)).items
    await server.client.restore(id, { checkpoint_id: first })
    await server.client.restore(id, { checkpoint_id: withFile?.checkpoint_id ?? '' })
    rmSync(at('docs'))
    mkdirSync(at('docs'))
    writeFileSync(at('docs/mine.txt'), 'mine\n')
    const { skipped } = await server.client.undo({})
    expect(skipped).toEqual([{ path: 'docs', reason: 'a folder with other files is in its place' }])
    expect(readFileSync(at('docs/mine.txt'), 'utf8')).toBe('mine\n')
  })
})
