import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newConversation, parsed, readAll, TENANT } from '../../test/support/frames.ts'
import { openSqliteStore, type TestStore } from '../../test/support/stores.ts'
import { type Agent, ModelFailure } from '../core/agent.ts'
import type { Ledger, RunHold } from '../core/ledger.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { createRunWorker } from './run-worker.ts'

/** The worker on a real store, with a scripted agent; the real agent has its own tests. */
describe('the run worker', () => {
  let store: TestStore
  let id: ConversationId
  beforeEach(async () => {
    store = await openSqliteStore()
    id = await newConversation(store.ledger)
  })
  afterEach(() => store.close())

  const start = (agent: Pick<Agent, 'run'>, ledger: Ledger = store.ledger, sessions?: WorkSessions) =>
    createRunWorker({
      ...(sessions ? { sessions } : {}),
      ledger,
      queue: store.queue,
      states: store.states,
      agent,
      log: { error() {} },
      worker: newId('run'),
      workspaceIds: () => [],
      leaseMs: 60_000,
      maxRuns: 10,
    })

  const send = () =>
    store.queue.enqueue({
      tenant: TENANT,
      conversationId: id,
      runId: newId('run'),
      messageId: newId('msg'),
      content: 'keep me',
      mayChangeFiles: true,
    })

  const kinds = async () => parsed(await readAll(store.ledger, id)).map((frame) => frame.kind)

  it('[L3] [R6] keeps the message when its first append fails', async () => {
    let failed: RunHold | null = null
    const failing: Ledger = {
      ...store.ledger,
      async append(command) {
        // Like the ledger, it refuses the frames that follow a missing one.
        if (failed && command.run === failed) return { ok: false, refusal: 'frame_missing' }
        if (failed) return store.ledger.append(command)
        failed = command.run
        throw new Error('no space')
      },
    }
    const worker = start(
      {
        async run({ signal, writer }) {
          await writer.flush()
          throw signal.reason
        },
      },
      failing,
    )
    await send()
    await expect.poll(kinds).toEqual(['conversation.created', 'message.user', 'lifecycle', 'error'])
    await worker.stop()
  })

  it('[L8] does not end a run that another worker has taken over, even when its own agent fails', async () => {
    const fail = Promise.withResolvers<never>()
    const worker = start({ run: () => fail.promise })
    const { runId } = await send()
    await expect.poll(kinds).toContain('lifecycle')
    const heir = await store.ledger.takeRun(TENANT, runId)
    fail.reject(new ModelFailure('gone', 'The model is gone.', { isRetryable: true }))
    await expect.poll(() => worker.active()).toBe(0)
    const taken = await store.ledger.append({
      tenant: TENANT,
      conversationId: id,
      run: heir,
      frames: [{ kind: 'final', final: { status: 'completed' } }],
    })
    expect(taken).toMatchObject({ ok: true })
    expect(await kinds()).toEqual(['conversation.created', 'message.user', 'lifecycle', 'final'])
    await worker.stop()
  })

  it.each(['a snapshot', 'an agent'])(
    '[T9] Stop ends a run that waits for %s that never returns',
    async (what) => {
      const never = new Promise<never>(() => {})
      const sessions = {
        beforeMessage: () => (what === 'a snapshot' ? never : Promise.resolve(null)),
        afterRun() {},
      }
      const worker = start({ run: () => never }, store.ledger, sessions as unknown as WorkSessions)
      const { runId } = await send()
      await expect.poll(() => worker.active()).toBe(1)
      await store.queue.cancel({ tenant: TENANT, conversationId: id, runId, by: 'me' })
      await expect.poll(kinds, { timeout: 10_000 }).toContain('final')
      expect(await kinds()).toContain('message.user')
      await expect.poll(() => worker.active()).toBe(0)
      await worker.stop()
    },
  )

  it('accepts an answer as soon as the question is visible', async () => {
    const agent: Pick<Agent, 'run'> = {
      async run(turn) {
        const question = { toolName: 'x', arguments: '{}', subject: '{}', confinement: null, sha256: 'q' }
        await turn.ask('call_1', question)
        const place = { output_index: 0, item_id: 'i', tool_call_id: 'call_1', tool_name: 'x' }
        turn.writer.write({ kind: 'tool.approval', ...place, status: 'requested' })
        await turn.writer.flush()
        const answering = store.queue.answer({
          tenant: TENANT,
          conversationId: id,
          runId: turn.runId,
          toolCallId: 'call_1',
          approved: true,
          reason: null,
          by: 'me',
          questionSha256: 'q',
          grant: { network: false, outside: false },
          always: null,
        })
        const answer = await turn.answerTo('call_1')
        await answering
        throw new ModelFailure(answer.by, 'answered', { isRetryable: false })
      },
    }
    const worker = start(agent)
    await send()
    await expect.poll(kinds).toContain('error')
    await worker.stop()
  })
})
