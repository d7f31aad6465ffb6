import { type Clock, timestamp } from '../core/clock.ts'
import type { Queue } from '../core/queue.ts'
import { newId } from '../protocol/ids.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'
import { createQueueNotices } from './queue-notices.ts'
import type { WriteArgument, WriteName, WriteResult } from './sql/operations.ts'
import { writeOne } from './write-one.ts'

export function createQueue(deps: { engine: Engine; clock: Clock; writes: GroupedWrites }): Queue {
  const { engine, clock, writes } = deps
  const notices = createQueueNotices(engine, writes)

  async function write<K extends WriteName>(
    name: K,
    argument: WriteArgument<K>,
    queueOf: string | null = null,
  ) {
    // Apart from the groups that appends are stored in: what it locks, it locks alone.
    const result = accepted<WriteResult<K>>(await stored(writeOne(engine, name, argument, queueOf)))
    if (queueOf !== null) notices.tell(queueOf)
    return result
  }

  return {
    enqueue: (command) => write('enqueue', { ...command, now: clock.now() }, command.conversationId),
    read: async (tenant, conversationId) =>
      accepted(await stored(engine.read('readQueue', { tenant, conversationId }), 'read')),
    depths: () => stored(engine.read('queueDepths', null), 'read'),
    async remove(tenant, conversationId, runId) {
      await write('removeQueued', { tenant, conversationId, runId }, conversationId)
    },
    async edit(command) {
      await write('editQueued', command, command.conversationId)
    },
    async cancel(command) {
      await write('cancelRun', command, command.conversationId)
    },
    async stop(command) {
      return (await write('stopCurrent', command, command.conversationId)).runId
    },
    async stopAll(command) {
      return await write('stopAll', command, command.conversationId)
    },
    async ask(runId, toolCallId, question) {
      await write('ask', { runId, toolCallId, question })
    },
    question: async (query) => accepted(await stored(engine.read('readQuestion', query), 'read')).question,
    async answer(command) {
      const now = clock.now()
      const added = { ruleId: newId('rule', now), now: timestamp(now) }
      await write('answerAsk', { ...command, ...added }, command.conversationId)
    },
    async claim(command) {
      for (const runId of await stored(engine.read('claimable', command), 'read')) {
        const claim = await write('claimRun', { ...command, runId, now: timestamp(clock.now()) })
        if (!claim) continue
        notices.tell(claim.conversationId)
        return claim
      }
      return null
    },
    renew: (worker, runIds, leaseMs) => write('renewLeases', { worker, runIds, leaseMs }),
    wishes: (runId) => stored(engine.read('wishes', runId), 'read'),
    async release(worker) {
      await write('releaseLeases', worker ?? null)
      notices.tell(null)
    },
    async abandon(runId) {
      await write('abandonRun', runId)
      notices.tell(null)
    },
    onChange: (listener) => notices.listen(listener),
  }
}
