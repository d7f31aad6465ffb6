import { type Clock, timestamp } from '../core/clock.ts'
import type { Queue } from '../core/queue.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { QueueNotices } from './queue-notices.ts'
import type { WriteArgument, WriteName, WriteResult } from './sql/operations.ts'
import { writeOne } from './write-one.ts'

export function createQueue(deps: { engine: Engine; clock: Clock; queueNotices: QueueNotices }): Queue {
  const { engine, clock, queueNotices } = deps

  async function write<K extends WriteName>(
    name: K,
    argument: WriteArgument<K>,
    queueOf: string | null = null,
  ) {
    const result = accepted<WriteResult<K>>(await stored(writeOne(engine, name, argument, queueOf)))
    if (queueOf !== null) queueNotices.tell(queueOf)
    return result
  }

  return {
    enqueue: (command) => write('enqueue', { ...command, now: clock.now() }, command.conversationId),
    read: async (tenant, conversationId) =>
      accepted(await stored(engine.read('readQueue', { tenant, conversationId }), 'read')),
    async remove(tenant, conversationId, runId) {
      await write('removeQueued', { tenant, conversationId, runId }, conversationId)
    },
    async cancel(command) {
      await write('cancelRun', command, command.conversationId)
    },
    async stop(command) {
      return (await write('stopCurrent', command, command.conversationId)).runId
    },
    async ask(runId, toolCallId) {
      await write('ask', { runId, toolCallId })
    },
    async answer(command) {
      await write('answerAsk', command, command.conversationId)
    },
    async claim(command) {
      const claim = await write('claimRun', { ...command, now: timestamp(clock.now()) })
      if (claim) queueNotices.tell(claim.conversationId)
      return claim
    },
    renew: (worker, leaseMs) => write('renewLeases', { worker, leaseMs }),
    wishes: (runId) => stored(engine.read('wishes', runId), 'read'),
    async release(worker) {
      await write('releaseLeases', worker ?? null)
      queueNotices.tell(null)
    },
    async abandon(runId) {
      await write('abandonRun', runId)
      queueNotices.tell(null)
    },
    onChange: (listener) => queueNotices.listen(listener),
  }
}
