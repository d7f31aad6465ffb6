import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { final, newConversation, parsed, readAll, TENANT, userMessage } from '../../test/support/frames.ts'
import type { OpenStore, TestStore } from '../../test/support/stores.ts'
import { type WorkChange, workStateOf } from '../core/work-sessions.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'

/** The contract for checkpoints, work sessions and changes in progress, for every engine. */
export function describeWork(name: string, open: OpenStore): void {
  describe(`work sessions on ${name}`, () => {
    let store: TestStore
    let id: ConversationId
    let workspaceId: string
    let count = 0

    beforeAll(async () => {
      store = await open()
    })
    afterAll(() => store.close())
    beforeEach(async () => {
      workspaceId = `Place.${newId('tok')}`
      id = await newConversation(store.ledger, { workspaceId })
    })

    const commit = () => createHash('sha1').update(String(++count)).digest('hex')
    let number = 0
    const checkpoint = (
      workSession: string,
      checkpointId = commit(),
    ): FrameDraft<'workspace.checkpoint'> => ({
      kind: 'workspace.checkpoint',
      checkpoint_id: checkpointId,
      work_session: workSession,
      label: `on ${workSession}`,
      files: 3,
      changed: 1,
      excluded: 2,
      number: ++number,
    })
    const approved = (session: number, approvedCommit: string): FrameDraft<'session.approved'> => ({
      kind: 'session.approved',
      approved_commit: approvedCommit,
      closed_session: `session_${session}`,
      new_session: `session_${session + 1}`,
      commits_approved: 1,
    })
    const append = (...frames: FrameDraft[]) =>
      store.ledger.append({ tenant: TENANT, conversationId: id, run: null, frames })
    const change = (fields: Partial<WorkChange> = {}): WorkChange => ({
      id: newId('tok'),
      kind: 'restore',
      tenant: TENANT,
      conversationId: id,
      by: 'a person',
      target: null,
      paths: null,
      safety: null,
      idempotency: null,
      ...fields,
    })
    const state = async (of = id) => workStateOf(await store.work.rows(TENANT, of, { isCounted: true }))
    const send = () =>
      store.queue.enqueue({
        tenant: TENANT,
        conversationId: id,
        runId: newId('run'),
        messageId: newId('msg'),
        content: 'hello',
        mayChangeFiles: true,
      })
    const claim = () =>
      store.queue.claim({ worker: 'w', leaseMs: 60_000, workspaceIds: [workspaceId], held: [] })

    it('[W6] derives sessions, branches and their tips from the frames', async () => {
      expect(await state()).toMatchObject({
        hasBegun: false,
        session: 'session_1',
        tip: null,
        main: null,
        heads: {},
      })
      const [initial, first, merged, reset] = [commit(), commit(), commit(), commit()]
      await append(checkpoint('main', initial))
      await append(checkpoint('session_1'), checkpoint('session_1', first))
      expect(await state()).toMatchObject({ session: 'session_1', tip: first, main: initial })
      await append(checkpoint('main', merged), approved(1, merged))
      expect(await state()).toMatchObject({ session: 'session_2', tip: merged, main: merged })
      await append(checkpoint('session_2', reset), {
        kind: 'session.reset',
        reset_to: merged,
        closed_session: 'session_2',
        new_session: 'session_3',
        pre_reset_checkpoint: reset,
        skipped: [],
      })
      const after = await state()
      expect(after.heads).toEqual({ main: merged, session_1: first, session_2: reset, session_3: merged })
      expect(after.sessions).toMatchObject([
        { name: 'session_1', status: 'merged', approvedCommit: merged, checkpointCount: 2 },
        { name: 'session_2', status: 'abandoned', approvedCommit: null, checkpointCount: 1 },
        { name: 'session_3', status: 'active', closedAt: null, checkpointCount: 0 },
      ])
      expect(await store.ledger.conversation(TENANT, id)).toMatchObject({
        active_session: 'session_3',
        last_approved_at: after.lastApprovedAt,
      })
    })

    it('keeps approvals after a cut, and can still restore checkpoints that it removed from the line', async () => {
      const [initial, merged, later] = [commit(), commit(), commit()]
      await append(checkpoint('main', initial))
      await append(
        userMessage('x'),
        checkpoint('main', merged),
        approved(1, merged),
        checkpoint('session_2', later),
      )
      const place = { tenant: TENANT, conversationId: id, at: { after: 2 }, newSegmentId: newId('seg') }
      await store.ledger.deleteMessages({ ...place, by: 'a person' })
      expect(await state()).toMatchObject({ session: 'session_2', main: merged, tip: later })
      expect(await store.work.findCheckpoint(TENANT, id, later)).toBe(later)
    })

    it('starts a fork with the checkpoints of its line, which it can restore', async () => {
      const [initial, first, later] = [commit(), commit(), commit()]
      await append(
        checkpoint('main', initial),
        checkpoint('session_1', first),
        checkpoint('session_1', later),
      )
      const fork = newId('conv')
      const place = {
        tenant: TENANT,
        conversationId: id,
        newConversationId: fork,
        newSegmentId: newId('seg'),
      }
      await store.ledger.fork({ ...place, at: { after: 3 } })
      expect(await state(fork)).toMatchObject({
        hasBegun: false,
        session: 'session_1',
        main: initial,
        tip: first,
      })
      expect(await store.work.findCheckpoint(TENANT, fork, first.slice(0, 7))).toBe(first)
      // A fork can use checkpoints of its whole family, but not those of unrelated conversations.
      expect(await store.work.findCheckpoint(TENANT, fork, later)).toBe(later)
      const stranger = await newConversation(store.ledger, { workspaceId })
      await expect(store.work.findCheckpoint(TENANT, stranger, later)).rejects.toMatchObject({
        code: 'checkpoint_not_found',
      })
      await store.ledger.remove(TENANT, id, 'a person')
      // The conversation can still be undeleted.
      expect(await store.work.expiredAmong([id, fork, 'conv_unknown'])).toEqual([])
      await store.collect()
      const reachable = await store.work.reachable()
      expect([initial, first].every((one) => reachable?.includes(one))).toBe(true)
      expect(reachable).not.toContain(later)
      expect(await store.work.expiredAmong([id, fork, 'conv_unknown'])).toEqual([id])
      await store.ledger.remove(TENANT, fork, 'a person')
      await store.collect()
      expect(await store.work.reachable()).not.toContain(first)
    })

    it('does not take a checkpoint restated by a cut for the tip of the open session', async () => {
      const [initial, approvedOne] = [commit(), commit()]
      await append(checkpoint('main', initial), userMessage('x'), checkpoint('session_1', commit()))
      const fork = newId('conv')
      const at = { tenant: TENANT, conversationId: id, at: null }
      await store.ledger.fork({ ...at, newConversationId: fork, newSegmentId: newId('seg') })
      await store.ledger.append({
        tenant: TENANT,
        conversationId: fork,
        run: null,
        frames: [checkpoint('main', approvedOne), approved(1, approvedOne)],
      })
      const before = await state(fork)
      const cut = { tenant: TENANT, conversationId: fork, at: { after: 1 } }
      await store.ledger.deleteMessages({ ...cut, newSegmentId: newId('seg'), by: 'a person' })
      const { session, main, tip } = await state(fork)
      expect({ session, main, tip }).toEqual({ session: before.session, main: before.main, tip: before.tip })
    })

    it('lists checkpoints with their messages in pages, newest first', async () => {
      const { runId, messageId } = await send()
      const held = await claim()
      const [initial, saved] = [commit(), commit()]
      await append(checkpoint('main', initial))
      const message = {
        kind: 'message.user',
        message_id: messageId,
        content: 'hello',
        checkpoint_id: saved,
      } as const
      const edit = {
        kind: 'file.edit',
        path: 'a\u0000.txt',
        diff: '-a\n+b\n',
        additions: 1,
        deletions: 1,
        change: 'modified',
      } as const
      await store.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: held?.hold ?? null,
        frames: [message, checkpoint('session_1', saved), edit, final('done')],
      })
      const query = { tenant: TENANT, conversationId: id, limit: 1, cursor: null }
      const first = await store.work.checkpoints(query)
      expect(first.items).toMatchObject([
        { checkpoint_id: saved, message_id: messageId, conversation_id: id },
      ])
      const second = await store.work.checkpoints({ ...query, cursor: first.next_cursor })
      expect(second).toMatchObject({
        items: [{ checkpoint_id: initial, message_id: null }],
        next_cursor: null,
      })
      expect((await store.work.edits(query)).items).toMatchObject([
        { path: 'a.txt', diff: '-a\n+b\n', message_id: messageId, checkpoint_id: saved },
      ])
      expect((await store.work.edits({ ...query, path: 'b' })).items).toEqual([])
      expect(runId).toBe(held?.hold.runId)
    })

    it('finds a checkpoint by a unique prefix of its id', async () => {
      const ids = ['a', 'b'].map((end) => `${'c'.repeat(39)}${end}`)
      await append(...ids.map((one) => checkpoint('session_1', one)))
      await expect(store.work.findCheckpoint(TENANT, id, 'c'.repeat(10))).rejects.toThrow('Several')
      expect(await store.work.findCheckpoint(TENANT, id, ids[1] ?? '')).toBe(ids[1])
    })

    it('[W8] never gives a workspace to a change and a run at the same time', async () => {
      await send()
      const held = await claim()
      await expect(store.work.begin(workspaceId, change())).rejects.toMatchObject({ code: 'workspace_busy' })
      await store.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: held?.hold ?? null,
        frames: [userMessage('hello'), final('done')],
      })
      const one = change()
      await store.work.begin(workspaceId, one)
      await expect(store.work.begin(workspaceId, change())).rejects.toMatchObject({ code: 'workspace_busy' })
      await send()
      expect(await claim()).toBe(null)
      const heard = new Promise((resolve) => store.queue.onChange(resolve))
      await store.work.abandon(workspaceId, one)
      await heard
      expect(await claim()).not.toBe(null)
    })

    it('[W8] gives the workspace to exactly one of many concurrent requests', async () => {
      await send()
      const wants = [...Array.from({ length: 8 }, () => store.work.begin(workspaceId, change())), claim()]
      const got = (await Promise.allSettled(wants)).filter(
        (one, index) => one.status === 'fulfilled' && (index < 8 || one.value !== null),
      )
      expect(got).toHaveLength(1)
    })

    it('[W5] releases a change exactly once, in the transaction that stores its frames', async () => {
      const one = change({ idempotency: { key: newId('tok'), fingerprint: 'x' } })
      await store.work.begin(workspaceId, one)
      const safe = { ...one, safety: checkpoint('session_1') }
      await store.work.note(workspaceId, safe)
      expect(await store.work.pending(workspaceId)).toEqual(safe)
      const done = { frames: [checkpoint('session_1')], answer: { it: 'is done' } }
      expect(await store.work.finish(workspaceId, one, done)).toBe(true)
      expect(await store.work.pending(workspaceId)).toBe(null)
      expect(await store.work.finish(workspaceId, one, done)).toBe(false)
      expect(parsed(await readAll(store.ledger, id)).map((frame) => frame.kind)).toEqual([
        'conversation.created',
        'workspace.checkpoint',
        'workspace.checkpoint',
      ])
      expect(await store.work.begin(workspaceId, { ...one, id: 'other' })).toEqual({ repeated: done.answer })
      const reused = change({ idempotency: { key: one.idempotency?.key ?? '', fingerprint: 'y' } })
      await expect(store.work.begin(workspaceId, reused)).rejects.toMatchObject({
        code: 'idempotency_key_reused',
      })
    })

    it('[W5] lists the safety checkpoint of a failed change until a later change succeeds', async () => {
      const one = change()
      await store.work.begin(workspaceId, one)
      const safe = { ...one, safety: checkpoint('session_1') }
      await store.work.note(workspaceId, safe)
      await store.work.fail(workspaceId, safe, 'the disk was full')
      expect(await store.work.pending(workspaceId)).toBe(null)
      expect(await store.work.failed(workspaceId)).toMatchObject({
        kind: one.kind,
        safetyCheckpoint: safe.safety.checkpoint_id,
        reason: 'the disk was full',
      })
      expect(await store.work.reachable()).toContain(safe.safety.checkpoint_id)
      const next = change()
      await store.work.begin(workspaceId, next)
      await store.work.finish(workspaceId, next, { frames: [checkpoint('session_1')], answer: {} })
      expect(await store.work.failed(workspaceId)).toBe(null)
    })

    it('releases the workspace when the conversation of a change is deleted', async () => {
      const one = change()
      await store.work.begin(workspaceId, one)
      await store.ledger.remove(TENANT, id, 'a person')
      const done = { frames: [checkpoint('session_1')], answer: {} }
      await expect(store.work.finish(workspaceId, one, done)).rejects.toMatchObject({
        code: 'conversation_not_found',
      })
      expect(await store.work.pending(workspaceId)).toBe(null)
    })
  })
}
