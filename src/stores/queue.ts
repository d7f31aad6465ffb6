import { type Clock, timestamp } from '../core/clock.ts'
import type { Queue } from '../core/queue.ts'
import { newId } from '../protocol/ids.ts'
import type { Database } from './database.ts'

export function createQueue({ database, clock }: { database: Database; clock: Clock }): Queue {
  const listeners = new Set<(conversationId: string | null) => void>()
  database.onChange(({ what, conversationId }) => {
    if (what === 'line') return
    for (const listener of listeners) listener(conversationId)
  })

  return {
    enqueue: (command) => database.write('enqueue', { ...command, now: clock.now() }),
    read: (tenant, conversationId) => database.read('readQueue', { tenant, conversationId }),
    depths: () => database.read('queueDepths', null),
    async remove(tenant, conversationId, runId) {
      await database.write('removeQueued', { tenant, conversationId, runId })
    },
    async edit(command) {
      await database.write('editQueued', command)
    },
    async cancel(command) {
      await database.write('cancelRun', command)
    },
    async stop(command) {
      return (await database.write('stopCurrent', command)).runId
    },
    stopAll: (command) => database.write('stopAll', command),
    async ask(runId, toolCallId, question) {
      await database.write('ask', { runId, toolCallId, question })
    },
    question: async (query) => (await database.read('readQuestion', query)).question,
    async answer(command) {
      const now = clock.now()
      const added = { ruleId: newId('rule', now), now: timestamp(now) }
      await database.write('answerAsk', { ...command, ...added })
    },
    async claim(command) {
      for (const runId of await database.read('claimable', command)) {
        const claim = await database.write('claimRun', { ...command, runId, now: timestamp(clock.now()) })
        if (claim) return claim
      }
      return null
    },
    renew: (worker, runIds, leaseMs) => database.write('renewLeases', { worker, runIds, leaseMs }),
    signals: (runId) => database.read('readSignals', runId),
    async release(worker) {
      await database.write('releaseLeases', worker ?? null)
    },
    async abandon(runId) {
      await database.write('abandonRun', runId)
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
