import type { OpenRunCommand, RunHold } from '../../../core/ledger.ts'
import type { RunId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { findHead } from '../lines/line.ts'
import { lockConversations } from '../lock.ts'
import { leaseLost, noConversation, type Refusable } from '../refusal.ts'
import { all, first, insertAll, type Script } from '../script.ts'

export function* openRun(dialect: Dialect, command: OpenRunCommand): Script<Refusable<RunHold>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  yield* insertAll('runs', [
    {
      id: command.runId,
      conversation_id: command.conversationId,
      segment: head.head_segment,
      epoch: 1,
      frames: 0,
      ended: 0,
    },
  ])
  return { runId: command.runId, epoch: 1, frames: 0 }
}

export function* takeRun(
  dialect: Dialect,
  command: { tenant: string; runId: RunId; from: number | null },
): Script<Refusable<RunHold>> {
  const { db } = dialect
  const query = db
    .selectFrom('runs as r')
    .innerJoin('conversations as c', 'c.id', 'r.conversation_id')
    .select(['c.id as conversation_id', 'r.epoch', 'r.frames', 'r.ended'])
    .where('r.id', '=', command.runId)
    .where('c.tenant_id', '=', command.tenant)
    .where('c.deleted_at', 'is', null)
  const found = yield* first(query)
  // Appends take the same lock: an append of the old holder that has not committed by now never will.
  if (found) yield* lockConversations(dialect, [found.conversation_id])
  const run = yield* first(query)
  if (!run) return { refused: 'run_not_found', why: 'There is no such run.' }
  if (run.ended) return { refused: 'run_ended', why: 'The run has ended.' }
  if (command.from !== null && run.epoch !== command.from) {
    return leaseLost
  }
  const epoch = run.epoch + 1
  yield* all(db.updateTable('runs').set({ epoch }).where('id', '=', command.runId))
  return { runId: command.runId, epoch, frames: run.frames }
}
