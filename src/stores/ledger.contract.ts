import { createHash } from 'node:crypto'
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
import { type FrameDraft, parseFrame } from '../protocol/frames.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { systemClock } from '../server/system-clock.ts'
import { createLedger } from './ledger.ts'

/** The contract of the ledger, for every engine. */
export function describeLedger(engineName: string, open: OpenStore): void {
  describe(`the ledger on ${engineName}`, () => {
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
    const contents = async (conversationId: ConversationId) =>
      (await ledger.messages({ tenant: TENANT, conversationId, cursor: null, limit: 1000 })).items.map(
        (message) => message.content,
      )

    it('[L2] numbers events 1, 2, 3 … along the line', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two')
      await say(id, 'three')
      expect(parsed(await readAll(ledger, id)).map((frame) => frame.event_id)).toEqual([1, 2, 3, 4])
    })

    it('[L2] keeps the order of calls that were not awaited', async () => {
      const id = await newConversation(ledger)
      const texts = Array.from({ length: 300 }, (_, index) => `message ${index}`)
      const large = 'x'.repeat(1_200_000)
      texts[100] = large
      await Promise.all(texts.map((text) => say(id, text)))
      expect(await contents(id)).toEqual(texts)
    })

    it('[L4] gives every reader the same bytes, which are valid frames', async () => {
      const id = await newConversation(ledger, { title: 'ünï — \u2028 "q" \\ 🙂' })
      await say(id, 'NUL \u0000, lone \ud800, newline \n, emoji 🙂')
      const once = await readAll(ledger, id, { limit: 1 })
      expect(await readAll(await store.openAgain(), id)).toEqual(once)
      for (const frame of parsed(once)) expect(parseFrame(frame)).toEqual(frame)
      expect(await contents(id)).toEqual(['NUL \u0000, lone \ud800, newline \n, emoji 🙂'])
    })

    it('[L9] chains every digest over its predecessor, across forks', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two', 'three')
      const child = await forkAt(root, 3)
      await say(child, 'four')
      let digest: Buffer = Buffer.alloc(32)
      for (const frame of await readAll(ledger, child)) {
        digest = createHash('sha256').update(digest).update(frame).digest()
      }
      expect((await page(child)).digest).toBe(digest.toString('hex'))
    })

    const forkAt = (id: ConversationId, after: number) => forkOf(ledger, id, { after })
    const cutAt = (id: ConversationId, after: number) => cutOf(ledger, id, { after })

    it('[L7] reads the rest of the line from a cursor at any event', async () => {
      const id = await newConversation(ledger)
      await say(id, 'one', 'two', 'three')
      const child = await forkAt(id, 3)
      await say(child, 'four', 'five')
      const all = await readAll(ledger, child)
      for (let start = 0; start < all.length; start++) {
        const cursor = start === 0 ? null : (await page(child, null, start)).last
        expect(await readAll(ledger, child, { cursor, limit: 2 })).toEqual(all.slice(start))
      }
    })

    it('[L7] refuses cursors of other families and of events that never existed', async () => {
      const id = await newConversation(ledger)
      const other = await newConversation(ledger)
      const { last } = await page(other)
      await expect(page(id, last)).rejects.toMatchObject({ code: 'bad_cursor' })
      await expect(page(other, { ...last, seq: 2 })).rejects.toMatchObject({ code: 'bad_cursor' })
      await expect(page(id, { segmentId: newId('seg'), seq: 1 })).rejects.toMatchObject({
        code: 'bad_cursor',
      })
    })

    it('[L7] sends a follower the stored events and then each commit, from other processes too', async () => {
      const id = await newConversation(ledger)
      const stop = new AbortController()
      const seen: string[] = []
      const query = { tenant: TENANT, conversationId: id, cursor: null, limit: 100 }
      const following = (async () => {
        for await (const next of ledger.follow(query, stop.signal)) {
          seen.push(...next.frames)
          if (seen.length === 4) stop.abort()
        }
      })()
      await say(id, 'one')
      const writer = engineName === 'Postgres' ? await store.openAgain() : ledger
      await writer.append({ tenant: TENANT, conversationId: id, run: null, frames: [userMessage('two')] })
      await writer.append({ tenant: TENANT, conversationId: id, run: null, frames: [userMessage('three')] })
      await following
      expect(seen).toEqual(await readAll(ledger, id))
    })

    it('[L5] ends a run with exactly one terminal frame', async () => {
      const id = await newConversation(ledger)
      const run = await startRun(ledger, id)
      const append = (...frames: FrameDraft[]) =>
        ledger.append({ tenant: TENANT, conversationId: id, run, frames })
      await append(delta('hel'), delta('lo'))
      expect(await append(final('hello'))).toMatchObject({ ok: true })
      expect(await append(delta('more'))).toEqual({ ok: false, refusal: 'run_ended' })
      const frames = parsed(await readAll(ledger, id)).slice(1)
      expect(frames.map((frame) => [frame.stream_id, frame.sequence_number])).toEqual([
        [run.runId, 1],
        [run.runId, 2],
        [run.runId, 3],
      ])
      await expect(append(final('twice'), delta('x'))).rejects.toThrow(/terminal/)
    })

    it('[L5] refuses an append after a terminal frame in the same batch', async () => {
      const id = await newConversation(ledger)
      const run = await startRun(ledger, id)
      const append = (frame: FrameDraft) =>
        ledger.append({ tenant: TENANT, conversationId: id, run, frames: [frame] })
      const [, , late] = await Promise.all([append(delta('a')), append(final('a')), append(delta('b'))])
      expect(late).toEqual({ ok: false, refusal: 'run_ended' })
    })

    it('[L3] refuses frames of a run after one that was not stored', async () => {
      const id = await newConversation(ledger)
      const run = await startRun(ledger, id)
      const append = (hold: typeof run, text: string) =>
        ledger.append({ tenant: TENANT, conversationId: id, run: hold, frames: [delta(text)] })
      await append(run, 'one')
      // As if a frame in between was sent but not stored.
      expect(await append({ ...run, frames: 2 }, 'three')).toEqual({ ok: false, refusal: 'frame_missing' })
      expect(await append(run, 'two')).toMatchObject({ ok: true })
      const taken = await ledger.takeRun(TENANT, run.runId)
      expect(taken).toMatchObject({ epoch: 2, frames: 2 })
      expect(await append(taken, 'three')).toMatchObject({ ok: true, lastSeq: 4 })
    })

    it('[L3] refuses frames after a large one that could not be stored, when all are appended at once', async () => {
      const failing = { ...store.blobs, put: () => Promise.reject(new Error('disk full')) }
      const other = createLedger({
        database: store.database,
        blobs: failing,
        clock: { now: () => 1_700_000_000_000 },
      })
      const id = await newConversation(other)
      const run = await startRun(other, id)
      const append = (text: string) =>
        other.append({ tenant: TENANT, conversationId: id, run, frames: [delta(text)] })
      const outcomes = await Promise.allSettled([
        append('one'),
        append('x'.repeat(1_100_000)),
        append('three'),
      ])
      expect(outcomes).toMatchObject([
        { value: { ok: true } },
        { reason: { code: 'storage_failed' } },
        { value: { ok: false, refusal: 'frame_missing' } },
      ])
    })

    it('[L8] refuses writes from a worker that lost its lease', async () => {
      const id = await newConversation(ledger)
      const run = await startRun(ledger, id)
      const taken = await ledger.takeRun(TENANT, run.runId)
      const append = (hold: typeof run) =>
        ledger.append({ tenant: TENANT, conversationId: id, run: hold, frames: [delta('x')] })
      expect(await append(run)).toEqual({ ok: false, refusal: 'lease_lost' })
      expect(await append(taken)).toMatchObject({ ok: true })
      expect(await readAll(ledger, id)).toHaveLength(2)
    })

    it('[L8] refuses writes of a run to a cut line or to another conversation', async () => {
      const id = await newConversation(ledger)
      const other = await newConversation(ledger)
      const run = await startRun(ledger, id)
      await cutAt(id, 1)
      const append = (conversationId: ConversationId) =>
        ledger.append({ tenant: TENANT, conversationId, run, frames: [delta('x')] })
      expect(await append(id)).toEqual({ ok: false, refusal: 'segment_cut' })
      expect(await append(other)).toEqual({ ok: false, refusal: 'run_not_found' })
    })

    it('[L11] lets no tenant see or change the data of another', async () => {
      const id = await newConversation(ledger, { tenant: 'a', title: 'secret' })
      const missing = { code: 'conversation_not_found' }
      const query = { tenant: 'b', conversationId: id, cursor: null, limit: 10 }
      await expect(ledger.page(query)).rejects.toMatchObject(missing)
      await expect(ledger.messages(query)).rejects.toMatchObject(missing)
      await expect(ledger.conversation('b', id)).rejects.toMatchObject(missing)
      await expect(ledger.line('b', id)).rejects.toMatchObject(missing)
      await expect(ledger.branches('b', id)).rejects.toMatchObject(missing)
      await expect(ledger.remove('b', id, 'x')).rejects.toMatchObject(missing)
      await expect(
        ledger.openRun({ tenant: 'b', conversationId: id, runId: newId('run') }),
      ).rejects.toMatchObject(missing)
      const refused = await ledger.append({
        tenant: 'b',
        conversationId: id,
        run: null,
        frames: [userMessage('x')],
      })
      expect(refused).toEqual({ ok: false, refusal: 'conversation_not_found' })
      expect(
        (await ledger.conversations({ tenant: 'b', limit: 10, after: null, search: null })).items,
      ).toEqual([])
      const own = await newConversation(ledger, { tenant: 'b' })
      const foreign = (await ledger.page({ ...query, tenant: 'a' })).last
      await expect(ledger.page({ ...query, conversationId: own, cursor: foreign })).rejects.toMatchObject({
        code: 'bad_cursor',
      })
    })

    it('[L4] stores large frames as blobs and returns their exact bytes', async () => {
      const id = await newConversation(ledger)
      const content = `${'äöü🙂 '.repeat(200_000)}end`
      await say(id, 'small', content, 'small again')
      const keys: string[] = []
      for await (const key of store.blobs.keys()) keys.push(key)
      expect(keys).toHaveLength(1)
      const frames = await readAll(ledger, id)
      expect(parsed(frames)[2]).toMatchObject({ content })
      let digest: Buffer = Buffer.alloc(32)
      for (const frame of frames) digest = createHash('sha256').update(digest).update(frame).digest()
      expect((await page(id, (await page(id, null, 3)).last)).digest).toBe(digest.toString('hex'))
      expect(await contents(id)).toEqual(['small', content, 'small again'])
    })

    it('[L4] fails on a damaged or missing blob, and never returns a different frame', async () => {
      const id = await newConversation(ledger)
      await say(id, 'x'.repeat(1_500_000))
      const [key = ''] = await Array.fromAsync(store.blobs.keys())
      const whole = await store.blobs.get(key)
      await store.blobs.delete(key)
      await expect(page(id)).rejects.toMatchObject({ code: 'storage_failed' })
      await store.blobs.put(key, Buffer.from('something else'))
      await expect(page(id)).rejects.toMatchObject({ code: 'storage_failed' })
      await store.blobs.delete(key)
      await store.blobs.put(key, whole ?? Buffer.alloc(0))
      expect(await readAll(ledger, id)).toHaveLength(2)
    })

    it('limits the size of a page, and continues on the next', async () => {
      const id = await newConversation(ledger)
      const texts = Array.from({ length: 12 }, (_, index) => String(index).repeat(300_000))
      for (const text of texts) await say(id, text)
      const first = await page(id, null, 100)
      expect(first.frames.length).toBeLessThan(6)
      expect(first.atEnd).toBe(false)
      expect(await readAll(ledger, id, { limit: 100 })).toHaveLength(13)
    })

    it('[L7] [L4] reads the same line backwards, across forks, cuts and large frames, at any page size', async () => {
      const root = await newConversation(ledger)
      await say(root, 'one', 'two', 'x'.repeat(400_000), 'y'.repeat(1_200_000), 'z'.repeat(400_000), 'six')
      const child = await forkOf(ledger, root, { after: 6 })
      await say(child, 'seven', 'w'.repeat(700_000), 'v'.repeat(700_000))
      await cutOf(ledger, child, { after: 9 })
      await say(child, 'ten')
      const all = await readAll(ledger, child)
      const back = (before: number, limit: number) =>
        ledger.page({ tenant: TENANT, conversationId: child, cursor: null, limit, before })
      for (const limit of [1, 2, 3, 500]) {
        const read: string[] = []
        for (let before = 1_000_000; before > 1; ) {
          const { frames, firstSeq, last, atEnd, digest } = await back(before, limit)
          expect(frames.length).toBeGreaterThan(0)
          expect(frames.length).toBeLessThanOrEqual(limit)
          expect(frames).toEqual(all.slice(firstSeq - 1, last.seq))
          expect(atEnd).toBe(last.seq === all.length)
          // A forward reader continues from the end of the page.
          const next = await page(child, last)
          expect(next.frames[0]).toBe(all[last.seq])
          if (atEnd) expect(next.digest).toBe(digest)
          read.unshift(...frames)
          before = firstSeq
        }
        expect(read).toEqual(all)
      }
    })

    it('rejects only the write that fails, and stores the others of its batch', async () => {
      const id = await newConversation(ledger)
      const twice = { tenant: TENANT, conversationId: id, runId: newId('run') }
      await ledger.openRun(twice)
      const outcomes = await Promise.allSettled([say(id, 'one'), ledger.openRun(twice), say(id, 'two')])
      expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(await contents(id)).toEqual(['one', 'two'])
    })

    it('rejects only the invalid frame, and stores the others of its batch', async () => {
      const id = await newConversation(ledger)
      const stray = ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: null,
        frames: [final('of no run')],
      })
      const outcomes = await Promise.allSettled([say(id, 'one'), stray, say(id, 'two')])
      expect(outcomes.map((outcome) => outcome.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(await contents(id)).toEqual(['one', 'two'])
    })

    it('[L2] never stores a small frame before an earlier large one, whatever the timing', async () => {
      for (let moment = 0; moment < 12; moment++) {
        let isDurable = () => {}
        const durable = new Promise<void>((resolve) => {
          isDurable = resolve
        })
        const slow = { ...store.blobs, put: () => durable }
        const other = createLedger({ database: store.database, blobs: slow, clock: systemClock })
        const id = await newConversation(other)
        const append = (content: string) =>
          other.append({ tenant: TENANT, conversationId: id, run: null, frames: [userMessage(content)] })
        const large = append('x'.repeat(1_100_000))
        // Wait for the compression; then the blob is stored, and the small frame follows `moment` microtasks later.
        await new Promise((resolve) => setTimeout(resolve, 30))
        isDurable()
        for (let step = 0; step < moment; step++) await Promise.resolve()
        const small = append('small')
        expect([await large, await small]).toMatchObject([{ firstSeq: 2 }, { firstSeq: 3 }])
      }
    })

    it('waits for pending appends on close, including large frames', async () => {
      const other = await store.openAgain()
      const id = await newConversation(other)
      const appends = ['small', 'x'.repeat(1_100_000), 'small again'].map((content) =>
        other.append({ tenant: TENANT, conversationId: id, run: null, frames: [userMessage(content)] }),
      )
      await other.close()
      expect((await Promise.all(appends)).every((outcome) => outcome.ok)).toBe(true)
      await expect(newConversation(other)).rejects.toThrow()
      expect(await readAll(ledger, id)).toHaveLength(4)
    })

    it('[L11] never shares a page between readers of two tenants, whatever their names', async () => {
      const id = await newConversation(ledger, { tenant: 'acme corp', title: 'SECRET' })
      const stop = new AbortController()
      const first = async (tenant: string, conversationId: string) => {
        const query = { tenant, conversationId: conversationId as ConversationId, cursor: null, limit: 5 }
        for await (const page of ledger.follow(query, stop.signal)) return page.frames
        return []
      }
      const [own, foreign] = await Promise.allSettled([first('acme corp', id), first('acme', `corp ${id}`)])
      stop.abort()
      expect(own.status).toBe('fulfilled')
      expect(foreign).toMatchObject({ status: 'rejected', reason: { code: 'conversation_not_found' } })
    })

    it('creates one conversation per Idempotency-Key, even for concurrent requests', async () => {
      const create = (fingerprint: string) =>
        ledger.create({
          tenant: TENANT,
          conversationId: newId('conv'),
          segmentId: newId('seg'),
          workspaceId: null,
          settings: {},
          frame: { kind: 'conversation.created', title: 'once' },
          idempotency: { key: 'k', fingerprint },
        })
      const results = await Promise.all([create('a'), create('a'), create('a')])
      expect(new Set(results.map((result) => result.conversation.id)).size).toBe(1)
      expect(results.map((result) => result.repeated)).toEqual([false, true, true])
      await expect(create('b')).rejects.toMatchObject({ code: 'idempotency_key_reused' })
      expect(
        (await ledger.conversations({ tenant: TENANT, limit: 9, after: null, search: null })).items,
      ).toHaveLength(1)
    })

    it('lists conversations in pages, last changed first', async () => {
      const ids: ConversationId[] = []
      for (let index = 0; index < 7; index++) ids.push(await newConversation(ledger, { title: `c${index}` }))
      await say(ids[2] as ConversationId, 'hello')
      const listed: (string | null)[] = []
      let after = null
      do {
        const next = await ledger.conversations({ tenant: TENANT, limit: 3, after, search: null })
        listed.push(...next.items.map((item) => item.title))
        after = next.next
      } while (after)
      expect(listed[0]).toBe('c2')
      expect(new Set(listed)).toEqual(new Set(['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6']))
      expect(listed).toHaveLength(7)
    })

    it('finds conversations by title and by the messages on their current line', async () => {
      const search = async (text: string) =>
        (await ledger.conversations({ tenant: TENANT, limit: 10, after: null, search: text })).items.map(
          (item) => item.id,
        )
      const a = await newConversation(ledger, { title: 'Größe of 100% Things' })
      const b = await newConversation(ledger)
      await say(b, 'nothing', 'Needle in a haystack')
      expect(await search('GRÖSSE')).toEqual([])
      expect(await search('größe')).toEqual([a])
      expect(await search('100%')).toEqual([a])
      expect(await search('1_0')).toEqual([])
      expect(await search('needle')).toEqual([b])
      const child = await forkAt(b, 3)
      expect(new Set(await search('needle'))).toEqual(new Set([b, child]))
      await cutAt(b, 2)
      expect(await search('needle')).toEqual([child])
    })

    it('merges and keeps settings', async () => {
      const id = await newConversation(ledger)
      await ledger.change(TENANT, id, { settings: { agent_context: 'a', memory: { strategy: 'trim' } } })
      await ledger.change(TENANT, id, { settings: { agent_context: null } })
      expect(await ledger.conversation(TENANT, id)).toMatchObject({
        agent_context: null,
        memory: { strategy: 'trim' },
      })
    })
  })
}
