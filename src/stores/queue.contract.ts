import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { final, newConversation, readAll, TENANT, userMessage } from '../../test/support/frames.ts'
import type { OpenStore, TestStore } from '../../test/support/stores.ts'
import type { Always } from '../core/questions.ts'
import type { Claim, ClaimCommand } from '../core/queue.ts'
import { MAX_WAITING } from '../core/queue.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'

const LEASE_MS = 60_000

/** The contract of the queue and its leases, for every engine. */
export function describeQueue(name: string, open: OpenStore): void {
  describe(`the queue on ${name}`, () => {
    let store: TestStore

    beforeAll(async () => {
      store = await open()
    })
    afterAll(() => store.close())

    const send = (conversationId: ConversationId, content = 'hello', key?: string) =>
      store.queue.enqueue({
        tenant: TENANT,
        conversationId,
        runId: newId('run'),
        messageId: newId('msg'),
        content,
        mayChangeFiles: true,
        ...(key ? { idempotency: { key, fingerprint: content } } : {}),
      })

    const worker = (options: Partial<ClaimCommand> = {}): ClaimCommand => ({
      worker: 'w1',
      leaseMs: LEASE_MS,
      workspaceIds: [],
      held: [],
      ...options,
    })

    const claimAll = async (command = worker()) => {
      const claims: Claim[] = []
      for (let claim = await store.queue.claim(command); claim; claim = await store.queue.claim(command)) {
        claims.push(claim)
      }
      return claims
    }

    const end = ({ conversationId, hold }: Claim) =>
      store.ledger.append({ tenant: TENANT, conversationId, run: hold, frames: [final('done')] })

    const finishAll = async () => {
      for (let claims = await claimAll(); claims.length > 0; claims = await claimAll()) {
        await Promise.all(claims.map(end))
      }
    }

    it('[G4] gives a reserved message to its worker only, until the reservation ends', async () => {
      const id = await newConversation(store.ledger)
      const message = { tenant: TENANT, conversationId: id, content: 'x', mayChangeFiles: true }
      const reserved = (leaseMs: number) =>
        store.queue.enqueue({
          ...message,
          runId: newId('run'),
          messageId: newId('msg'),
          reserve: { worker: 'w2', leaseMs },
        })
      await reserved(LEASE_MS)
      expect(await store.queue.claim(worker())).toBeNull()
      const claim = await store.queue.claim(worker({ worker: 'w2' }))
      expect(claim?.conversationId).toBe(id)
      await end(claim as Claim)
      await reserved(0)
      const taken = await store.queue.claim(worker())
      expect(taken?.conversationId).toBe(id)
      await end(taken as Claim)
    })

    it('[R1] processes the messages of a conversation in order, one at a time', async () => {
      const id = await newConversation(store.ledger)
      const other = await newConversation(store.ledger)
      const sent = [await send(id, 'a'), await send(id, 'b'), await send(other, 'x'), await send(id, 'c')]
      expect(sent.map(({ position }) => position)).toEqual([0, 1, 0, 2])

      const first = await claimAll()
      expect(first.map(({ content }) => content)).toEqual(['a', 'x'])
      expect(await store.queue.read(TENANT, id)).toMatchObject({
        active: { runId: sent[0]?.runId, messageId: sent[0]?.messageId },
        waiting: [{ content: 'b' }, { content: 'c' }],
      })

      await Promise.all(first.map(end))
      const second = await claimAll()
      expect(second.map(({ content }) => content)).toEqual(['b'])
      await Promise.all(second.map(end))
      await finishAll()
      expect(await store.queue.read(TENANT, id)).toEqual({ active: null, waiting: [] })
    })

    it('[R1] refuses the eleventh waiting message', async () => {
      const id = await newConversation(store.ledger)
      for (let count = 0; count <= MAX_WAITING; count++) await send(id)
      await expect(send(id)).rejects.toMatchObject({ code: 'queue_full' })
      const [active] = await claimAll()
      await expect(send(id)).rejects.toMatchObject({ code: 'queue_full' })
      await end(active as Claim)
      await send(id)
      await finishAll()
    })

    it('[R6] accepts a message once, no matter how often it is sent with the same key', async () => {
      const id = await newConversation(store.ledger)
      const key = newId('msg')
      const sent = await Promise.all(Array.from({ length: 5 }, () => send(id, 'once', key)))
      expect(new Set(sent.map(({ runId }) => runId)).size).toBe(1)
      expect(sent.filter(({ repeated }) => !repeated)).toHaveLength(1)
      expect((await store.queue.read(TENANT, id)).waiting).toHaveLength(1)
      await finishAll()
      // The run has ended by now, and the answer is still the first one.
      expect(await send(id, 'once', key)).toMatchObject({ runId: sent[0]?.runId, repeated: true })
      await expect(send(id, 'something else', key)).rejects.toMatchObject({ code: 'idempotency_key_reused' })
      expect((await store.queue.read(TENANT, id)).waiting).toEqual([])
    })

    it('[R3] hands a run over only after its lease has ended', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      const held = await store.queue.claim(worker({ worker: 'dying', leaseMs: 300 }))
      expect(await claimAll(worker({ worker: 'heir' }))).toEqual([])
      let taken: Claim | null = null
      await expect
        .poll(async () => (taken ??= await store.queue.claim(worker({ worker: 'heir' }))), { timeout: 5000 })
        .toMatchObject({ isTakenOver: true, hold: { runId: held?.hold.runId, epoch: 2 } })
      await end(taken as unknown as Claim)
    })

    it('[L8] refuses frames and agent state from a worker whose run was taken over', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      const held = (await store.queue.claim(worker({ worker: 'paused', leaseMs: 0 }))) as Claim
      const taken = (await store.queue.claim(worker({ worker: 'heir' }))) as Claim
      const before = await readAll(store.ledger, id)
      const late = await store.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: held.hold,
        frames: [userMessage('too late')],
      })
      expect(late).toEqual({ ok: false, refusal: 'lease_lost' })
      const typed = { type: 'json', bytes: Buffer.from('{}') }
      const place = { threadId: held.hold.runId, namespace: '', id: 'state' }
      const fence = { conversationId: id, runId: held.hold.runId, epoch: held.hold.epoch }
      await expect(
        store.states.put(
          { ...place, parentId: null, state: typed, metadata: typed, values: {}, unchanged: [] },
          fence,
        ),
      ).rejects.toMatchObject({ code: 'lease_lost' })
      await expect(store.states.putWrites(place, [], fence)).rejects.toMatchObject({ code: 'lease_lost' })
      expect(await readAll(store.ledger, id)).toEqual(before)
      expect(await store.queue.renew('paused', [held.hold.runId], LEASE_MS)).toEqual([])
      await end(taken)
    })

    it('keeps a run for the worker that renews its lease', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      const held = (await store.queue.claim(worker({ worker: 'alive', leaseMs: 1 }))) as Claim
      expect(await store.queue.renew('alive', [], LEASE_MS)).toEqual([])
      expect(await store.queue.renew('alive', [held.hold.runId], LEASE_MS)).toEqual([held.hold.runId])
      expect(await claimAll(worker({ worker: 'heir' }))).toEqual([])
      await store.queue.release('alive')
      expect(await store.queue.claim(worker({ worker: 'heir' }))).toMatchObject({ isTakenOver: true })
      await store.queue.release('heir')
      await finishAll()
    })

    it('[R3] gives a worker its own expired run again only if the answer to its claim was lost', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      const held = (await store.queue.claim(worker({ leaseMs: 0 }))) as Claim
      expect(await store.queue.claim(worker({ held: [held.hold.runId] }))).toBeNull()
      const again = await store.queue.claim(worker())
      expect(again).toMatchObject({ isTakenOver: true, hold: { epoch: 2 } })
      await end(again as Claim)
    })

    it('[L8] continues after a lost frame only while the holder still has the run', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      const { hold } = (await store.queue.claim(worker({ leaseMs: 0 }))) as Claim
      const taken = (await store.queue.claim(worker({ worker: 'heir' }))) as Claim
      await expect(store.ledger.takeRun(TENANT, hold.runId, hold.epoch)).rejects.toMatchObject({
        code: 'lease_lost',
      })
      await end(taken)
    })

    it('[D2] clears the queue on a cut, including an active run that has not ended', async () => {
      const id = await newConversation(store.ledger)
      const first = await send(id, 'a')
      const second = await send(id, 'b')
      await store.queue.claim(worker())
      const place = { tenant: TENANT, conversationId: id, at: { after: 1 } }
      await store.ledger.deleteMessages({ ...place, newSegmentId: newId('seg'), by: 'me' })
      expect(await store.queue.signals(first.runId)).toMatchObject({ isQueued: false })
      expect(await store.queue.signals(second.runId)).toMatchObject({ isQueued: false })
      await send(id, 'c')
      const next = await store.queue.claim(worker())
      expect(next).toMatchObject({ content: 'c' })
      await end(next as Claim)
    })

    it('[D2] cancels the active run and removes waiting messages on stopAll', async () => {
      const id = await newConversation(store.ledger)
      const who = { tenant: TENANT, conversationId: id, by: 'me' }
      expect((await store.queue.stopAll(who)).runId).toBe(null)
      const first = await send(id, 'a')
      await send(id, 'b')
      const claim = (await store.queue.claim(worker())) as Claim
      expect(await store.queue.stopAll(who)).toMatchObject({
        runId: first.runId,
        waiting: [{ content: 'b' }],
      })
      expect(await store.queue.signals(first.runId)).toMatchObject({ isQueued: true, cancelledBy: 'me' })
      expect((await store.queue.read(TENANT, id)).waiting).toEqual([])
      await end(claim)
      expect((await store.queue.stopAll(who)).runId).toBe(null)
    })

    it('never gives a conversation to two workers at the same time', async () => {
      const second = await store.openQueueAgain()
      const ids = await Promise.all(Array.from({ length: 8 }, () => newConversation(store.ledger)))
      for (const id of ids) for (let count = 0; count < 3; count++) await send(id, String(count))
      const active = new Set<string>()
      const seen: string[] = []
      const work = async (queue: typeof store.queue, ledger: typeof store.ledger, me: string) => {
        for (;;) {
          const claim = await queue.claim(worker({ worker: me }))
          if (!claim) {
            if (seen.length === ids.length * 3) return
            await new Promise(setImmediate)
            continue
          }
          expect(active.has(claim.conversationId)).toBe(false)
          active.add(claim.conversationId)
          seen.push(`${claim.conversationId} ${claim.content}`)
          await new Promise(setImmediate)
          active.delete(claim.conversationId)
          await ledger.append({
            tenant: TENANT,
            conversationId: claim.conversationId,
            run: claim.hold,
            frames: [final('x')],
          })
        }
      }
      await Promise.all([
        work(store.queue, store.ledger, 'a'),
        work(store.queue, store.ledger, 'b'),
        work(second.queue, second.ledger, 'c'),
      ])
      expect(new Set(seen).size).toBe(ids.length * 3)
      for (const id of ids) {
        const own = seen.filter((one) => one.startsWith(id)).map((one) => one.at(-1))
        expect(own).toEqual(['0', '1', '2'])
      }
    })

    it('gives a conversation only to a worker that has its workspace', async () => {
      const conversationId = newId('conv')
      await store.ledger.create({
        tenant: TENANT,
        conversationId,
        segmentId: newId('seg'),
        workspaceId: 'Shop.Laptop',
        settings: {},
        frame: { kind: 'conversation.created' },
      })
      await send(conversationId)
      expect(await claimAll(worker({ workspaceIds: ['Other'] }))).toEqual([])
      const [claim] = await claimAll(worker({ workspaceIds: ['Other', 'Shop.Laptop'] }))
      expect(claim).toMatchObject({ conversationId })
      await end(claim as Claim)
    })

    it('[R2] stops and returns the current run, and leaves the others in the queue', async () => {
      const id = await newConversation(store.ledger)
      const command = { tenant: TENANT, conversationId: id, by: 'tok_me' }
      expect(await store.queue.stop(command)).toBeNull()
      const first = await send(id, 'first')
      await send(id, 'second')
      const [claim] = await claimAll()
      expect(await store.queue.signals(first.runId)).toEqual({
        isQueued: true,
        cancelledBy: null,
        answers: [],
      })
      expect(await store.queue.stop(command)).toBe(first.runId)
      expect(await store.queue.signals(first.runId)).toEqual({
        isQueued: true,
        cancelledBy: 'tok_me',
        answers: [],
      })
      expect((await store.queue.read(TENANT, id)).waiting).toHaveLength(1)
      await end(claim as Claim)
      await finishAll()
    })

    it('removes a waiting message, and cancels waiting and active runs', async () => {
      const id = await newConversation(store.ledger)
      const [active, removed, cancelled] = [await send(id), await send(id), await send(id)]
      const [claim] = await claimAll()
      await store.queue.remove(TENANT, id, removed.runId)
      await expect(store.queue.remove(TENANT, id, removed.runId)).rejects.toMatchObject({
        code: 'run_not_found',
      })
      await expect(store.queue.remove(TENANT, id, active.runId)).rejects.toMatchObject({
        code: 'run_not_found',
      })
      const command = { tenant: TENANT, conversationId: id, by: 'tok_me' }
      await store.queue.cancel({ ...command, runId: cancelled.runId })
      expect((await store.queue.read(TENANT, id)).waiting).toEqual([])
      await store.queue.cancel({ ...command, runId: active.runId })
      expect(await store.queue.signals(active.runId)).toMatchObject({ cancelledBy: 'tok_me' })
      await end(claim as Claim)
    })

    it('delivers an answer once, to the run that asked', async () => {
      const id = await newConversation(store.ledger)
      const { runId } = await send(id)
      const [claim] = await claimAll()
      const answer = {
        tenant: TENANT,
        conversationId: id,
        runId,
        toolCallId: 'call_1',
        approved: true,
        reason: 'go',
        by: 'me',
        questionSha256: 'q1',
        grant: { network: true, outside: false },
        always: { match: 'exact' as const, scope: 'workspace' as const },
      }
      const question = {
        toolName: 'run_command',
        arguments: '{"command":"ls"}',
        subject: 'ls',
        confinement: null,
        sha256: 'q1',
      }
      await expect(store.queue.answer(answer)).rejects.toMatchObject({ code: 'approval_not_pending' })
      await store.queue.ask(runId, 'call_1', question)
      await store.queue.ask(runId, 'call_1', question)
      const query = { tenant: TENANT, conversationId: id, runId, toolCallId: 'call_1' }
      expect(await store.queue.question(query)).toEqual(question)
      await expect(store.queue.question({ ...query, tenant: 'other' })).rejects.toMatchObject({
        code: 'conversation_not_found',
      })
      // An answer must name the digest of the pending question.
      for (const questionSha256 of ['q2', null]) {
        await expect(store.queue.answer({ ...answer, questionSha256 })).rejects.toMatchObject({
          code: 'approval_not_pending',
        })
      }
      await store.queue.answer(answer)
      await expect(store.queue.answer(answer)).rejects.toMatchObject({ code: 'approval_not_pending' })
      await expect(store.queue.question(query)).rejects.toMatchObject({ code: 'approval_not_pending' })
      const call = { tenant: TENANT, workspaceId: null, conversationId: id, toolName: 'run_command' }
      const rule = await store.rules.find({ ...call, subject: 'ls' })
      expect(rule).toMatchObject({ subject: 'ls', grant: { network: true, outside: false }, by: 'me' })
      expect(await store.rules.find({ ...call, subject: 'ls ' })).toBeNull()
      expect(await store.rules.find({ ...call, tenant: 'other', subject: 'ls' })).toBeNull()
      expect(await store.rules.find({ ...call, workspaceId: 'w', subject: 'ls' })).toBeNull()
      expect(await store.rules.list(TENANT)).toEqual([rule])
      expect(await store.rules.remove('other', rule?.id ?? '', 'me')).toBe(false)
      expect(await store.rules.remove(TENANT, rule?.id ?? '', 'me')).toBe(true)
      expect(await store.rules.list(TENANT)).toEqual([])
      await store.queue.ask(runId, 'call_1', question)
      expect((await store.queue.signals(runId)).answers).toEqual([
        {
          toolCallId: 'call_1',
          approved: true,
          reason: 'go',
          by: 'me',
          grant: { network: true, outside: false },
          optionId: null,
        },
      ])
      await end(claim as Claim)
      expect((await store.queue.signals(runId)).answers).toEqual([])
      await expect(store.queue.answer(answer)).rejects.toMatchObject({ code: 'run_not_found' })
    })

    it('[T5] makes rules for first words and for whole tools, in one conversation or in all', async () => {
      const id = await newConversation(store.ledger)
      const { runId } = await send(id)
      const [claim] = await claimAll()
      const call = { tenant: TENANT, workspaceId: null, conversationId: id, toolName: 'run_command' }
      const allow = async (toolCallId: string, subject: string, always: Always) => {
        const question = {
          toolName: 'run_command',
          arguments: '',
          subject,
          confinement: null,
          sha256: subject,
        }
        await store.queue.ask(runId, toolCallId, question)
        const answer = { approved: true, reason: null, by: 'me', questionSha256: subject, always }
        const grant = { network: false, outside: false }
        await store.queue.answer({ tenant: TENANT, conversationId: id, runId, toolCallId, grant, ...answer })
      }
      await allow('call_1', 'npm test -- a', { match: 'prefix', scope: 'conversation' })
      expect(await store.rules.find({ ...call, subject: 'npm test' })).toMatchObject({
        match: 'prefix',
        subject: 'npm test',
        conversationId: id,
      })
      for (const subject of [
        'npm testing',
        'npm run test',
        'npm test; ls',
        'npm test $(ls)',
        'npm test\nls',
      ]) {
        expect(await store.rules.find({ ...call, subject }), subject).toBeNull()
      }
      const elsewhere = { ...call, conversationId: 'conv_other' }
      expect(await store.rules.find({ ...elsewhere, subject: 'npm test' })).toBeNull()
      await expect(
        allow('call_2', 'bash -c ls', { match: 'prefix', scope: 'workspace' }),
      ).rejects.toMatchObject({
        code: 'invalid_request',
      })
      await allow('call_3', 'anything', { match: 'tool', scope: 'workspace' })
      expect(await store.rules.find({ ...elsewhere, subject: 'rm -rf /' })).toMatchObject({ match: 'tool' })
      // The narrowest rule counts.
      expect(await store.rules.find({ ...call, subject: 'npm test' })).toMatchObject({ match: 'prefix' })
      for (const rule of await store.rules.list(TENANT)) await store.rules.remove(TENANT, rule.id, 'me')
      await end(claim as Claim)
    })

    it('drops the waiting messages of a deleted conversation', async () => {
      const id = await newConversation(store.ledger)
      await send(id)
      await send(id)
      await store.ledger.remove(TENANT, id, 'me')
      expect(await claimAll()).toEqual([])
      await expect(send(id)).rejects.toBeInstanceOf(WaymarkError)
    })

    it('claims the next run after one was abandoned', async () => {
      const id = await newConversation(store.ledger)
      await send(id, 'a')
      await send(id, 'b')
      const [claim] = await claimAll()
      await store.queue.abandon((claim as Claim).hold.runId)
      const [next] = await claimAll()
      expect(next).toMatchObject({ content: 'b' })
      await end(next as Claim)
    })

    it('[L11] hides a queue from other tenants', async () => {
      const id = await newConversation(store.ledger)
      const { runId } = await send(id)
      const stranger = { tenant: 'other', conversationId: id, by: 'x' }
      const refused = { code: 'conversation_not_found' }
      await expect(store.queue.read('other', id)).rejects.toMatchObject(refused)
      await expect(store.queue.stop(stranger)).rejects.toMatchObject(refused)
      await expect(store.queue.cancel({ ...stranger, runId })).rejects.toMatchObject(refused)
      await expect(store.queue.remove('other', id, runId)).rejects.toMatchObject(refused)
      await finishAll()
    })

    it('notifies listeners of every change', async () => {
      const id = await newConversation(store.ledger)
      let told = 0
      const stop = store.queue.onChange((conversationId) => {
        expect(conversationId).toBe(id)
        told++
      })
      const isTold = async (act: () => Promise<unknown>) => {
        const before = told
        await act()
        await expect.poll(() => told).toBeGreaterThan(before)
      }
      await isTold(() => send(id))
      let claim: Claim | null = null
      await isTold(async () => (claim = await store.queue.claim(worker())))
      await isTold(() => end(claim as unknown as Claim))
      stop()
      await finishAll()
    })
  })
}
