import { ANY, read, write } from '../operation.ts'
import { claimable, claimRun, releaseLeases, renewLeases } from './leases.ts'
import {
  abandonRun,
  answerAsk,
  ask,
  cancelRun,
  editQueued,
  enqueue,
  queueDepths,
  readQuestion,
  readQueue,
  readSignals,
  removeQueued,
  stopAll,
  stopCurrent,
} from './queue.ts'
import { findRule, listRules, removeRule } from './rules.ts'
import { openRun, takeRun } from './runs.ts'

export const reads = {
  readQueue: read(readQueue),
  queueDepths: read(queueDepths),
  readQuestion: read(readQuestion),
  readSignals: read(readSignals),
  claimable: read(claimable),
  findRule: read(findRule),
  listRules: read(listRules),
}

const alone = { keepsHeads: true, isAlone: true } as const
const onQueue = {
  ...alone,
  changesQueue: ({ conversationId }: { conversationId: string }) => conversationId,
}

export const writes = {
  openRun: write(openRun, { keepsHeads: true }),
  takeRun: write(takeRun, { keepsHeads: true }),
  enqueue: write(enqueue, onQueue),
  removeQueued: write(removeQueued, onQueue),
  editQueued: write(editQueued, onQueue),
  cancelRun: write(cancelRun, onQueue),
  stopCurrent: write(stopCurrent, onQueue),
  stopAll: write(stopAll, onQueue),
  ask: write(ask, { ...alone, isRepeatable: true }),
  answerAsk: write(answerAsk, onQueue),
  claimRun: write(claimRun, { ...alone, changesQueue: (_, claim) => claim?.conversationId ?? null }),
  renewLeases: write(renewLeases, { ...alone, isRepeatable: true }),
  releaseLeases: write(releaseLeases, { ...alone, isRepeatable: true, changesQueue: () => ANY }),
  abandonRun: write(abandonRun, { ...alone, changesQueue: () => ANY }),
  removeRule: write(removeRule, alone),
}
