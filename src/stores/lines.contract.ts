import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  cutOf,
  delta,
  final,
  forkOf,
  newConversation,
  parsed,
  readAll,
  startRun,
  TENANT,
  userMessage,
} from '../../test/support/frames.ts'
import type { OpenStore, TestStore } from '../../test/support/stores.ts'
import type { Ledger, Page } from '../core/ledger.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'

/** The contract of lines, for every engine: forks, cuts, undone cuts and collection. */
export function describeLines(engineName: string, open: OpenStore): void {
  describe(`lines on ${engineName}`, () => {
    let store: TestStore
    let ledger: Ledger

    beforeEach(async () => {
      store = await open()
      ledger = store.ledger
    })
    afterEach(() => store.close())

    const say = (conversationId: ConversationId, ...texts: string[]) =>
      ledger.append({
        tenant: TENANT,
        conversationId,
        run: null,
        frames: texts.map((text) => userMessage(text)),
      })
    const page = (conversationId: ConversationId, cursor: Page['last'] | null = null, limit = 500) =>
      ledger.page({ tenant: TENANT, conversationId, cursor, limit })
    const messages = async (conversationId: ConversationId) =>
      (await ledger.messages({ tenant: TENANT, conversationId, cursor: null, limit: 1000 })).items
    const contents = async (id: ConversationId) => (await messages(id)).map((message) => message.content)
    const messageIds = async (id: ConversationId) => (await messages(id)).map((message) => message.message_id)
    const forkAt = (id: ConversationId, after: number) => forkOf(ledger, id, { after })
    const cutAt = (id: ConversationId, after: number) => cutOf(ledger, id, { after })
    const undo = (id: ConversationId, messageId: string) =>
      ledger.undeleteMessages({ tenant: TENANT, conversationId: id, messageId, by: 'a test' })

    it('[L2] continues the numbering of the parent in a fork; neither sees later events of the other', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two', 'three')
      const child = await forkAt(root, 3)
      await say(child, 'four in the child')
      await say(root, 'four in the root')
      expect(await contents(child)).toEqual(['one', 'two', 'four in the child'])
      expect(await contents(root)).toEqual(['one', 'two', 'three', 'four in the root'])
      const kinds = parsed(await readAll(ledger, child)).map((frame) => [frame.event_id, frame.kind])
      expect(kinds.slice(3)).toEqual([
        [4, 'conversation.forked'],
        [5, 'message.user'],
      ])
    })

    it('reads back to the root from a fork at any depth', async () => {
      let id = await newConversation(ledger)
      await say(id, 'from the root')
      for (let depth = 0; depth < 30; depth++) {
        const { head_event_number } = await ledger.conversation(TENANT, id)
        id = await forkAt(id, head_event_number)
      }
      await say(id, 'from the leaf')
      expect(await contents(id)).toEqual(['from the root', 'from the leaf'])
      expect(await ledger.line(TENANT, id)).toHaveLength(31)
    })

    it('forks at an event that the parent inherited', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two')
      const child = await forkAt(root, 3)
      const grandchild = await forkAt(child, 2)
      expect(await contents(grandchild)).toEqual(['one'])
      await expect(forkAt(root, 99)).rejects.toMatchObject({ code: 'event_not_found' })
    })

    it('[D1] [D3] takes the rest off the line on a cut, and restores it when the cut is undone', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'three')
      const [, two = ''] = await messageIds(id)
      await cutAt(id, 2)
      await say(id, 'another two')
      expect(await contents(id)).toEqual(['one', 'another two'])
      await undo(id, two)
      expect(await contents(id)).toEqual(['one', 'two', 'three'])
      await say(id, 'four')
      expect(await contents(id)).toEqual(['one', 'two', 'three', 'four'])
    })

    it('[D3] leaves forks unchanged when their parent is cut', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two', 'three')
      const child = await forkAt(root, 4)
      const before = await readAll(ledger, child)
      await cutAt(root, 1)
      await say(root, 'something else')
      expect(await readAll(ledger, child)).toEqual(before)
    })

    it('[L7] sends the cut position, then the new events, to a reader whose segment was cut', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'three')
      const { last } = await page(id)
      await cutAt(id, 2)
      await say(id, 'another two')
      const next = await page(id, last)
      expect(next.cut?.seq).toBe(2)
      expect(parsed(next.frames).map((frame) => frame.kind)).toEqual([
        'conversation.truncated',
        'message.user',
      ])
      expect((await page(id, next.last)).cut).toBeNull()
    })

    it('[L7] sends the cut position to a reader whose segment was left when a cut was undone', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two')
      const [, two = ''] = await messageIds(id)
      await cutAt(id, 2)
      const { last } = await page(id)
      await undo(id, two)
      const next = await page(id, last)
      expect([next.cut?.seq, next.frames.length]).toEqual([2, 1])
    })

    it('uses the last title on the line', async () => {
      const id = await newConversation(ledger, { title: 'first' })
      await ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: null,
        frames: [{ kind: 'conversation.retitled', title: 'second' }],
      })
      const title = async (which: ConversationId) => (await ledger.conversation(TENANT, which)).title
      expect(await title(id)).toBe('second')
      expect(await title(await forkAt(id, 1))).toBe('first')
    })

    it('titles a conversation without a title by the first message of its line', async () => {
      const id = await newConversation(ledger)
      const described = async (which: ConversationId) => {
        const { title, is_titled } = await ledger.conversation(TENANT, which)
        return [title, is_titled]
      }
      expect(await described(id)).toEqual([null, false])
      await say(id, '## Fix the *basket*\nplease', 'and the cart')
      expect(await described(id)).toEqual(['Fix the basket', false])
      expect(await described(await forkAt(id, 3))).toEqual(['Fix the basket', false])
      const early = await forkAt(id, 1)
      await say(early, `Long ${'x'.repeat(5000)}`)
      expect(await described(early)).toEqual([`Long ${'x'.repeat(54)}…`, false])
      const { items } = await ledger.conversations({ tenant: TENANT, after: null, search: null, limit: 10 })
      expect(items.map(({ title }) => title)).toContain('Fix the basket')
      const family = await ledger.family(TENANT, id)
      expect(family.map(({ title }) => title)).toContain('Fix the basket')
    })

    it('finds messages with excerpts, once for all forks, and only on current lines', async () => {
      const id = await newConversation(ledger)
      await say(id, `The start. ${'word '.repeat(40)}Find the NEEDLE here.`, 'needle again', 'nothing')
      const child = await forkAt(id, 2)
      const search = async (text: string, only: ConversationId | null = null) =>
        (await ledger.search({ tenant: TENANT, search: text, conversationId: only, limit: 10 })).items
      const places = async (text: string) =>
        (await search(text)).map(({ conversationId, eventNumber }) => [conversationId, eventNumber])
      expect(await places('needle')).toEqual([
        [id, 3],
        [id, 2],
      ])
      const [, first] = await search('needle')
      expect(first?.excerpt.text).toMatch(/^….*Find the NEEDLE here\.$/)
      expect(first?.excerpt.text.slice(...(first?.excerpt.match ?? []))).toBe('NEEDLE')
      expect(await search('need')).toHaveLength(2)
      expect(await search('need ')).toEqual([])
      expect(await search('again needle')).toHaveLength(1)
      expect(await search('100%_')).toEqual([])
      expect(await search('%')).toEqual([])
      await say(id, 'İİİİİİ find pear here')
      const [folded] = await search('PEAR')
      expect(folded?.excerpt.text.slice(...(folded?.excerpt.match ?? []))).toBe('pear')
      expect((await search('needle', child)).map(({ eventNumber }) => eventNumber)).toEqual([2])
      await cutAt(id, 2)
      expect(await places('needle')).toEqual([[id, 2]])
      await ledger.remove(TENANT, id, 'a test')
      expect(await places('needle')).toEqual([[child, 2]])
      expect(
        (await ledger.search({ tenant: 'another', search: 'needle', conversationId: null, limit: 10 })).items,
      ).toEqual([])
    })

    it('lists the branches of a conversation, and names the parent of a fork', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one')
      const child = await forkAt(root, 2)
      const gone = await forkAt(root, 1)
      await ledger.remove(TENANT, gone, 'a test')
      expect(await ledger.branches(TENANT, root)).toMatchObject([
        { conversationId: child, fromEventNumber: 2 },
      ])
      expect(await ledger.conversation(TENANT, child)).toMatchObject({
        parent: { conversation_id: root, event_number: 2 },
        head_event_number: 3,
      })
    })

    it('hides a deleted conversation from every call, while its forks keep their history', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one')
      const child = await forkAt(root, 2)
      await ledger.remove(TENANT, root, 'a test')
      await expect(page(root)).rejects.toMatchObject({ code: 'conversation_not_found' })
      await expect(ledger.remove(TENANT, root, 'x')).rejects.toMatchObject({ code: 'conversation_not_found' })
      expect(await contents(child)).toEqual(['one'])
    })

    it('forks just before a user message, and between a question and its answer', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one')
      const run = await startRun(ledger, id)
      const question = userMessage('two')
      await ledger.append({
        tenant: TENANT,
        conversationId: id,
        run,
        frames: [question, delta('an'), delta('swer'), final('answer')],
      })
      const reworded = await forkOf(ledger, id, { before: question.message_id })
      expect(await contents(reworded)).toEqual(['one'])
      const answeredAgain = await forkOf(ledger, id, { before: run.runId })
      expect(await contents(answeredAgain)).toEqual(['one', 'two'])
      expect(await contents(await forkOf(ledger, reworded, null))).toEqual(['one'])
      await expect(forkOf(ledger, reworded, { before: question.message_id })).rejects.toMatchObject({
        code: 'message_not_found',
      })
    })

    it('creates one fork for two requests with the same key', async () => {
      const id = await newConversation(ledger)
      const fork = (fingerprint: string) =>
        ledger.fork({
          tenant: TENANT,
          conversationId: id,
          at: null,
          newConversationId: newId('conv'),
          newSegmentId: newId('seg'),
          title: 'Another try',
          idempotency: { key: 'k', fingerprint },
        })
      const first = await fork('a')
      expect(first).toMatchObject({ repeated: false, conversation: { title: 'Another try' } })
      expect(await fork('a')).toEqual({ conversation: first.conversation, repeated: true })
      await expect(fork('b')).rejects.toMatchObject({ code: 'idempotency_key_reused' })
      expect(await ledger.branches(TENANT, id)).toHaveLength(1)
    })

    it('[D1] deletes only user messages, inherited ones too, and leaves the parent unchanged', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two', 'three')
      const run = await startRun(ledger, root)
      await ledger.append({ tenant: TENANT, conversationId: root, run, frames: [final('answer')] })
      const child = await forkOf(ledger, root, null)
      await say(child, 'four')
      const before = await readAll(ledger, root)
      await expect(cutOf(ledger, child, { before: run.runId })).rejects.toMatchObject({
        code: 'message_not_deletable',
      })
      const [, two = ''] = await messageIds(child)
      expect(await cutOf(ledger, child, { before: two })).toMatchObject({ messageId: two, cutAfter: 2 })
      await say(child, 'another two')
      expect(await contents(child)).toEqual(['one', 'another two'])
      expect(await readAll(ledger, root)).toEqual(before)
      await undo(child, two)
      expect(await contents(child)).toEqual(['one', 'two', 'three', 'answer', 'four'])
    })

    it('[D3] undo returns to the most recently left line that has the message, and can itself be undone', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'three')
      const [, two = '', three = ''] = await messageIds(id)
      await cutOf(ledger, id, { before: three })
      await say(id, 'another three')
      await cutOf(ledger, id, { before: two })
      await say(id, 'another two')
      await undo(id, two)
      expect(await contents(id)).toEqual(['one', 'two', 'another three'])
      const { leftMessageId } = await undo(id, three)
      expect(await contents(id)).toEqual(['one', 'two', 'three'])
      await undo(id, leftMessageId ?? '')
      expect(await contents(id)).toEqual(['one', 'two', 'another three'])
      await expect(undo(id, two)).rejects.toMatchObject({ code: 'message_not_deleted' })
      await expect(undo(id, newId('msg'))).rejects.toMatchObject({ code: 'message_not_found' })
    })

    it('keeps a title set by a person when messages are deleted, and drops one set by the agent', async () => {
      const id = await newConversation(ledger, { title: 'first' })
      const title = async () => (await ledger.conversation(TENANT, id)).title
      await say(id, 'one')
      const [one = ''] = await messageIds(id)
      const run = await startRun(ledger, id)
      const thought = { kind: 'conversation.retitled', title: 'what one is about' } as const
      await ledger.append({ tenant: TENANT, conversationId: id, run, frames: [thought, final('done')] })
      expect(await title()).toBe('what one is about')
      await cutOf(ledger, id, { before: one })
      expect(await title()).toBe('first')
      await undo(id, one)
      expect(await title()).toBe('what one is about')
      await ledger.change(TENANT, id, { title: 'mine', settings: {} })
      await cutOf(ledger, id, { before: one })
      expect(await title()).toBe('mine')
      await ledger.change(TENANT, id, { title: 'mine again', settings: {} })
      await undo(id, one)
      expect(await title()).toBe('mine again')
    })

    it('[D3] can restore a deleted conversation until it is collected', async () => {
      const id = await newConversation(ledger, { title: 'mine' })
      await say(id, 'one')
      const before = await readAll(ledger, id)
      await expect(ledger.undoRemove(TENANT, id, 'me')).rejects.toMatchObject({ code: 'message_not_deleted' })
      await ledger.remove(TENANT, id, 'me')
      await ledger.undoRemove(TENANT, id, 'me')
      expect(await readAll(ledger, id)).toEqual(before)
      await ledger.remove(TENANT, id, 'me')
      await expect(ledger.undoRemove('another', id, 'me')).rejects.toMatchObject({
        code: 'conversation_not_found',
      })
      await store.collect()
      await expect(ledger.undoRemove(TENANT, id, 'me')).rejects.toMatchObject({
        code: 'conversation_not_found',
      })
    })

    it('[D3] collects the note about the session of a hosted agent with its conversation', async () => {
      const id = await newConversation(ledger)
      const place = { threadId: id, namespace: 'hosted', id: `head_${id}` }
      const typed = { type: 'json', bytes: Buffer.from('{}') }
      const rest = { parentId: null, state: typed, metadata: typed, values: {}, unchanged: [] }
      await store.states.put({ ...place, ...rest }, null)
      await ledger.remove(TENANT, id, 'me')
      expect(await store.states.get(place)).not.toBeNull()
      await store.collect()
      expect(await store.states.get(place)).toBeNull()
    })

    it('[D3] collects events that no line reaches, but only after the retention time', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'x'.repeat(1_100_000))
      const [, two = ''] = await messageIds(id)
      const { at } = await cutOf(ledger, id, { before: two })
      const line = await readAll(ledger, id)
      const blobs = () => Array.fromAsync(store.blobs.keys())
      await store.collect(at - 1)
      expect(await blobs()).toHaveLength(1)
      await undo(id, two)
      expect(await contents(id)).toHaveLength(3)
      await cutOf(ledger, id, { before: two })
      await store.collect()
      expect(await blobs()).toEqual([])
      await expect(undo(id, two)).rejects.toMatchObject({ code: 'message_not_found' })
      expect(parsed(await readAll(ledger, id)).map((frame) => frame.kind)).toEqual(
        parsed(line).map((frame) => frame.kind),
      )
      expect(await store.collection.unreachable(Date.now(), null, 10)).toEqual([])
    })

    it('[L7] sends the cut position to a reader of collected events', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'three')
      const { last } = await page(id)
      await cutAt(id, 2)
      const left = await page(id)
      await cutAt(id, 1)
      await store.collect()
      await say(id, 'something else')
      for (const { cursor, cut } of [
        { cursor: last, cut: 1 },
        { cursor: left.last, cut: 1 },
        { cursor: { ...last, seq: 3 }, cut: 1 },
      ]) {
        const next = await page(id, cursor)
        expect([next.cut?.seq, next.frames.length]).toEqual([cut, 2])
      }
      await expect(page(id, { ...last, seq: 9 })).rejects.toMatchObject({ code: 'bad_cursor' })
    })

    it('[D4] records who deleted what, when and in which range', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two')
      const [, two = ''] = await messageIds(id)
      await cutOf(ledger, id, { before: two })
      await undo(id, two)
      await ledger.remove(TENANT, id, 'a person')
      const query = { tenant: TENANT, limit: 2, before: null }
      const first = await store.collection.audit(query)
      expect(first.items).toMatchObject([
        { action: 'conversation.deleted', by: 'a person', conversationId: id, details: { events: [1, 3] } },
        { action: 'message.undeleted', details: { message_id: two, events: [3, 3], left: [3, 3] } },
      ])
      const rest = await store.collection.audit({ ...query, before: first.next })
      expect(rest).toMatchObject({
        items: [{ action: 'message.deleted', by: 'a test', details: { message_id: two, events: [3, 3] } }],
        next: null,
      })
      expect((await store.collection.audit({ ...query, tenant: 'another' })).items).toEqual([])
    })

    it('allows any number of deletions in a conversation', { timeout: 120_000 }, async () => {
      const id = await newConversation(ledger, { workspaceId: 'W' })
      const times = engineName === 'SQLite' ? 1100 : 50
      for (let n = 0; n < times; n++) {
        const message = userMessage(`message ${n}`)
        await ledger.append({
          tenant: TENANT,
          conversationId: id,
          run: null,
          frames: [userMessage('stays'), message],
        })
        await cutOf(ledger, id, { before: message.message_id })
      }
      expect(await ledger.line(TENANT, id)).toHaveLength(times + 1)
      expect(await contents(id)).toHaveLength(Math.min(times, 1000))
      await store.collect()
      await say(id, 'still here')
    })

    it('lists the whole family, with deleted conversations only if they have forks', async () => {
      const root = await newConversation(ledger, { title: 'root' })
      const child = await forkOf(ledger, root, null)
      const grandchild = await forkOf(ledger, child, { after: 1 })
      const leaf = await forkOf(ledger, root, { after: 1 })
      await ledger.remove(TENANT, child, 'me')
      await ledger.remove(TENANT, leaf, 'me')
      const family = await ledger.family(TENANT, grandchild)
      expect(family.map(({ id, title, isDeleted }) => ({ id, title, isDeleted }))).toEqual([
        { id: root, title: 'root', isDeleted: false },
        { id: child, title: null, isDeleted: true },
        { id: grandchild, title: 'root', isDeleted: false },
      ])
      await expect(ledger.family('another', root)).rejects.toMatchObject({ code: 'conversation_not_found' })
    })
  })
}
