import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allFrames, ask, finalOf, frameWhen, ofKind } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { dataIn } from '../../test/support/state.ts'
import { createClient } from '../client/index.ts'
import { newId } from '../protocol/ids.ts'

describe('deletions over HTTP', () => {
  let server: TestServer
  let project: string
  const messages = async (id: string) => (await server.client.messages(id)).items
  const contents = async (id: string) => (await messages(id)).map((message) => message.content)
  const messageId = async (id: string, content: string) =>
    (await messages(id)).find((message) => message.content === content)?.message_id ?? ''

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-deletions-'))
    server = await startTestServer({ project, tools: { run_command: 'allow' } })
  })
  afterAll(async () => {
    await server.close()
    rmSync(project, { recursive: true, force: true })
  })

  it('[D1] takes a message and all after it off the line, rewinds the memory and leaves the files', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    await ask(server, id, '!write_to_file {"path":"kept.txt","content":"by the agent"}')
    await ask(server, id, 'my name is nobody')
    const second = (await messages(id))[2]
    const deleted = await server.client.deleteMessage(id, second?.message_id ?? '')
    expect(deleted).toMatchObject({
      conversation_id: id,
      deleted_message_id: second?.message_id,
      cut_after: (second?.event_number ?? 0) - 1,
      checkpoint_id: second?.checkpoint_id,
    })
    const hours = (Date.parse(deleted.undo_until) - Date.now()) / 3_600_000
    expect(hours).toBeGreaterThan(23.9)
    expect(hours).toBeLessThanOrEqual(24)
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is devansh.')
    expect(readFileSync(join(project, 'kept.txt'), 'utf8')).toBe('by the agent')
    const restored = await server.client.restore(id, { checkpoint_id: deleted.checkpoint_id ?? '' })
    expect(restored.deleted).toEqual(['kept.txt'])
  })

  it('[D2] stops the active run and clears the queue before it deletes', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    const { message_id, run_id } = await server.client.sendMessage(id, {
      content: '!run_command {"command":"sleep 0.5; echo done > late.txt"}\n!wait 20\n!say 100',
    })
    await server.client.sendMessage(id, { content: 'I wait' })
    await server.client.sendMessage(id, { content: 'I wait too' })
    await frameWhen(server, id, 'tool.arguments.done')
    const { cleared } = await server.client.deleteMessage(id, message_id)
    expect(cleared.map((one) => one.content)).toEqual(['I wait', 'I wait too'])
    expect(await contents(id)).toHaveLength(2)
    expect(await server.client.queue(id)).toMatchObject({ active: null, items: [] })
    await server.client.undelete(id, { message_id })
    const run = (await allFrames(server, id)).filter((frame) => frame.stream_id === run_id)
    expect(finalOf(run).status).toBe('cancelled')
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is devansh.')
    expect(() => readFileSync(join(project, 'late.txt'))).toThrow()
  })

  it('[D2] stops the active run when an earlier message or the whole conversation is deleted', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    const first = await messageId(id, 'I am devansh')
    await server.client.sendMessage(id, { content: '!wait 20\n!say 200' })
    await frameWhen(server, id, 'message.delta')
    await server.client.deleteMessage(id, first)
    expect(await contents(id)).toEqual([])
    expect(server.activeRuns()).toBe(0)
    const other = await server.client.createConversation()
    await server.client.sendMessage(other.id, { content: '!wait 20\n!say 200' })
    await frameWhen(server, other.id, 'message.delta')
    await server.client.sendMessage(other.id, { content: 'I wait' })
    const gone = await server.client.deleteConversation(other.id)
    expect(gone).toMatchObject({ conversation_id: other.id, cleared: [{ content: 'I wait' }] })
    expect(Date.parse(gone.undo_until)).toBeGreaterThan(Date.now())
    expect(server.activeRuns()).toBe(0)
    await server.client.undelete(other.id)
    const last = (await allFrames(server, other.id)).filter((frame) => frame.stream_id !== null)
    expect(finalOf(last).status).toBe('cancelled')
  })

  it('[D1] deletes an inherited message in a fork, while the parent keeps it', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    await ask(server, id, 'my name is nobody')
    const fork = await server.client.fork(id)
    await ask(server, fork.id, 'and more')
    const before = await contents(id)
    const second = await messageId(fork.id, 'my name is nobody')
    await server.client.deleteMessage(fork.id, second)
    expect(finalOf(await ask(server, fork.id, 'what is my name')).response_text).toBe('Your name is devansh.')
    expect(await contents(id)).toEqual(before)
    // Conversely, a fork keeps the messages that its parent deletes.
    const again = await server.client.fork(id)
    await server.client.deleteMessage(id, second)
    await server.client.collect({ now: true })
    expect(await contents(again.id)).toEqual(before)
    expect(finalOf(await ask(server, again.id, 'what is my name')).response_text).toBe('Your name is nobody.')
  })

  it('deletes once and repeats the answer when called twice', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'one')
    await ask(server, id, 'two')
    const two = await messageId(id, 'two')
    const first = await server.client.deleteMessage(id, two)
    expect(await server.client.deleteMessage(id, two)).toEqual(first)
    const cuts = ofKind(await allFrames(server, id), 'conversation.truncated')
    expect(cuts).toHaveLength(1)
    await server.client.collect({ now: true })
    await expect(server.client.deleteMessage(id, two)).rejects.toMatchObject({
      status: 404,
      code: 'message_not_found',
    })
  })

  it('[D1] refuses to delete answers, waiting messages and messages of other tenants', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'one')
    const [, answer] = await messages(id)
    await expect(server.client.deleteMessage(id, answer?.message_id ?? '')).rejects.toMatchObject({
      status: 409,
      code: 'message_not_deletable',
    })
    await server.client.sendMessage(id, { content: '!wait 20\n!say 50' })
    const waiting = await server.client.sendMessage(id, { content: 'I wait' })
    await expect(server.client.deleteMessage(id, waiting.message_id)).rejects.toMatchObject({
      code: 'message_not_found',
    })
    expect((await server.client.queue(id)).items).toHaveLength(1)
    const token = await server.tokenFor('others', ['conversations:read', 'conversations:write', 'admin'])
    const others = createClient({ url: server.url, token })
    const one = await messageId(id, 'one')
    const missing = { status: 404, code: 'conversation_not_found' }
    await expect(others.deleteMessage(id, one)).rejects.toMatchObject(missing)
    await expect(others.undelete(id, { message_id: one })).rejects.toMatchObject(missing)
    await expect(others.undelete(id)).rejects.toMatchObject(missing)
    await expect(others.fork(id)).rejects.toMatchObject(missing)
    await expect(others.tree(id)).rejects.toMatchObject(missing)
    await expect(others.compare(id, id)).rejects.toMatchObject(missing)
    await server.client.stop(id)
    // An immediate collection affects only the deletions of the caller's tenant.
    await server.client.deleteMessage(id, one)
    await others.collect({ now: true })
    await server.client.undelete(id, { message_id: one })
    expect((await contents(id))[0]).toBe('one')
    expect((await others.audit()).items.every((entry) => entry.action === 'collected')).toBe(true)
  })

  it('[D3] restores the old line after new messages, and can return to the new one', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'I am devansh')
    await ask(server, id, 'my name is nobody')
    const nobody = await messageId(id, 'my name is nobody')
    await server.client.deleteMessage(id, nobody)
    await ask(server, id, 'my name is somebody')
    const somebody = await messageId(id, 'my name is somebody')
    const back = await server.client.undelete(id, { message_id: nobody })
    expect(back).toMatchObject({ undeleted_message_id: nobody, left_message_id: somebody })
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is nobody.')
    await server.client.undelete(id, { message_id: somebody })
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is somebody.')
    await expect(server.client.undelete(id, { message_id: somebody })).rejects.toMatchObject({
      status: 409,
      code: 'message_not_deleted',
    })
    await expect(server.client.undelete(id, { message_id: newId('msg') })).rejects.toMatchObject({
      code: 'message_not_found',
    })
  })

  it('stops no run when it refuses to undelete', async () => {
    const { id } = await server.client.createConversation()
    const { message_id } = await server.client.sendMessage(id, { content: '!wait 20\n!say 40' })
    await server.client.sendMessage(id, { content: 'I wait' })
    await frameWhen(server, id, 'message.delta')
    for (const wrong of [newId('msg'), message_id]) {
      await expect(server.client.undelete(id, { message_id: wrong })).rejects.toMatchObject({
        name: 'RequestError',
      })
    }
    expect(await server.client.queue(id)).toMatchObject({
      active: { message_id },
      items: [{ content: 'I wait' }],
    })
    await server.client.stop(id)
  })

  it('gives concurrent deletions of one message the same answer', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'one')
    const one = await messageId(id, 'one')
    const [a, b] = await Promise.all([1, 2].map(() => server.client.deleteMessage(id, one)))
    expect(a).toEqual(b)
  })

  it('[D3] hides collected edits where they were deleted, while a fork keeps them', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    await ask(server, id, '!write_to_file {"path":"s.txt","content":"top secret"}')
    const fork = await server.client.fork(id)
    const secret = (await messages(id))[2]?.message_id ?? ''
    await server.client.deleteMessage(id, secret)
    expect(JSON.stringify(await server.client.edits(id))).toContain('top secret')
    await server.client.collect({ now: true })
    expect(JSON.stringify(await server.client.edits(id))).not.toContain('top secret')
    expect(JSON.stringify(await server.client.checkpoints(id))).not.toContain('top secret')
    expect(JSON.stringify(await server.client.edits(fork.id))).toContain('top secret')
  })

  it('restores the files a reset saved, after messages before it were deleted and collected', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    await ask(server, id, '!write_to_file {"path":"valuable.txt","content":"work"}')
    const { pre_reset_checkpoint } = await server.client.reset(id)
    const [first] = await messages(id)
    await server.client.deleteMessage(id, first?.message_id ?? '')
    await server.client.collect({ now: true })
    await server.files.dropUnreachable(0)
    const { restored } = await server.client.restore(id, { checkpoint_id: pre_reset_checkpoint ?? '' })
    expect(restored).toContain('valuable.txt')
  })

  it('[D3] [D4] collects after the retention time, counts the removals and writes an audit entry', async () => {
    const { id } = await server.client.createConversation({ title: 'To be collected' })
    await ask(server, id, 'a secret word: xyzzy')
    const secret = await messageId(id, 'a secret word: xyzzy')
    const deleted = await server.client.deleteMessage(id, secret)
    const dry = await server.client.collect({ dry_run: true })
    expect(dry).toMatchObject({ dry_run: true, events: 0 })
    expect((await server.client.collect({ dry_run: true, now: true })).messages).toBeGreaterThanOrEqual(2)
    await server.client.undelete(id, { message_id: secret })
    await server.client.deleteMessage(id, deleted.deleted_message_id)
    const report = await server.client.collect({ now: true })
    expect(report.messages).toBeGreaterThanOrEqual(2)
    expect(report.agent_states).toBeGreaterThan(0)
    await expect(server.client.undelete(id, { message_id: secret })).rejects.toMatchObject({
      code: 'message_not_found',
    })
    expect((await server.client.listConversations({ q: 'xyzzy' })).items).toEqual([])
    expect((await server.client.responses(id)).items).toEqual([])
    const metrics = await (await server.call('/metrics')).text()
    expect(metrics).toMatch(/waymark_gc_removed_total\{what="events"\} [1-9]/)
    const { items } = await server.client.audit({ limit: 4 })
    expect(items.map((entry) => entry.action)).toEqual([
      'collected',
      'message.deleted',
      'message.undeleted',
      'message.deleted',
    ])
    expect(items[1]).toMatchObject({ by: 'local', conversation_id: id, details: { message_id: secret } })
    expect(JSON.stringify(items)).not.toContain('xyzzy')
    expect(finalOf(await ask(server, id, 'hello')).status).toBe('completed')
  })

  it('[D3] leaves no trace of collected messages in the database file', async () => {
    const own = mkdtempSync(join(tmpdir(), 'waymark-deleted-'))
    const isIn = (text: string) => readFileSync(join(dataIn(own), 'waymark.db')).includes(text)
    try {
      let other = await startTestServer({ project: own })
      const { id } = await other.client.createConversation()
      await ask(other, id, 'the secret is plugh')
      await ask(other, id, 'something else')
      await other.close()
      expect(isIn('plugh')).toBe(true)
      other = await startTestServer({ project: own })
      const [first] = (await other.client.messages(id)).items
      await other.client.deleteMessage(id, first?.message_id ?? '')
      await other.client.collect({ now: true })
      await other.close()
      expect(isIn('plugh')).toBe(false)
      expect(isIn('conversation.truncated')).toBe(true)
    } finally {
      rmSync(own, { recursive: true, force: true })
    }
  })

  it('keeps approvals and the work session when the messages around them are deleted and collected', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, '!write_to_file {"path":"work.txt","content":"1"}')
    await ask(server, id, '!write_to_file {"path":"work.txt","content":"2"}')
    await server.client.approve(id, { message: 'good' })
    await ask(server, id, '!write_to_file {"path":"work.txt","content":"3"}')
    const before = await server.client.session(id)
    expect(before).toMatchObject({ active_session: 'session_2' })
    const [first] = await messages(id)
    await server.client.deleteMessage(id, first?.message_id ?? '')
    await server.client.collect({ now: true })
    const after = await server.client.session(id)
    expect(after).toMatchObject({
      active_session: 'session_2',
      last_approved_at: before.last_approved_at,
      // Authors are derived from edits, and the edits were collected.
      changed_files: before.changed_files.map((file) => ({ ...file, by: [] })),
    })
    await server.client.reset(id)
    expect(readFileSync(join(project, 'work.txt'), 'utf8')).toBe('2')
  })

  it('lets only admins collect and read the audit log', async () => {
    const token = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const client = createClient({ url: server.url, token })
    await expect(client.collect()).rejects.toMatchObject({ code: 'missing_scope' })
    await expect(client.audit()).rejects.toMatchObject({ code: 'missing_scope' })
    await expect(server.client.audit({ cursor: 'x' })).rejects.toMatchObject({ code: 'bad_cursor' })
  })
})
