import type { Fence } from '../../../core/agent-states.ts'
import type { Claim, ClaimCommand, MessageExtras } from '../../../core/queue.ts'
import type { ConversationId, RunId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { lockConversations } from '../lock.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { lockWorkspace } from '../work-sessions/work-changes.ts'
import { leaseEnd, leaveQueue, lockQueued } from './queue.ts'
import { openRun, takeRun } from './runs.ts'

/** Candidates per claim: other workers may claim the first ones before this one does. */
const CANDIDATES = 10

type QueueRow = Omit<Schema['queue'], 'place' | 'extras'> & { extras: string | null }

/** Claimable runs: active ones with an expired lease, and the first waiting one of each conversation with no active run. */
export function* claimable(dialect: Dialect, command: ClaimCommand): Script<string[]> {
  return (yield* candidates(dialect, command)).map((row) => row.run_id)
}

/**
 * Claims one run for this worker. `claimable` chose it without a lock, so the choice is checked again under the
 * conversation's lock. One claim per transaction, so that two processes can't deadlock.
 */
export function* claimRun(
  dialect: Dialect,
  command: ClaimCommand & { runId: string; now: string },
): Script<Claim | null> {
  const found = yield* first(
    dialect.db
      .selectFrom('queue')
      .select(['conversation_id', 'workspace_id'])
      .where('run_id', '=', command.runId),
  )
  if (!found) return null
  yield* lockConversations(dialect, [found.conversation_id])
  // No run starts while files are being restored in its workspace (W8).
  if (found.workspace_id !== null && (yield* lockWorkspace(dialect, found.workspace_id))) return null
  const [row] = yield* candidates(dialect, command, command.runId)
  return row ? yield* hold(dialect, row, command) : null
}

function* hold(
  dialect: Dialect,
  row: QueueRow,
  command: ClaimCommand & { now: string },
): Script<Claim | null> {
  const { db } = dialect
  const runId = row.run_id as RunId
  const tenant = row.tenant_id
  const conversationId = row.conversation_id as ConversationId
  const isTakenOver = row.state === 'active'
  const run = isTakenOver
    ? yield* takeRun(dialect, { tenant, runId, from: null })
    : yield* openRun(dialect, { tenant, conversationId, runId })
  if ('refused' in run) {
    // The conversation was deleted, or the run ended but its row stayed: no worker could ever claim it.
    yield* leaveQueue(dialect, [runId])
    return null
  }
  yield* all(
    db
      .updateTable('queue')
      .set({
        state: 'active',
        worker: command.worker,
        lease_until: leaseEnd(dialect, command.leaseMs),
        started_at: row.started_at ?? command.now,
      })
      .where('run_id', '=', runId),
  )
  return {
    tenant,
    conversationId,
    workspaceId: row.workspace_id,
    messageId: row.message_id,
    content: row.content,
    extras: JSON.parse(row.extras ?? '{}') as MessageExtras,
    mayChangeFiles: row.may_change_files === 1,
    hold: run,
    isTakenOver,
  }
}

function* candidates(
  { db, nowMs, isIn, list }: Dialect,
  command: ClaimCommand,
  runId?: string,
): Script<QueueRow[]> {
  return yield* all(
    db
      .selectFrom('queue as q')
      .selectAll()
      .where((eb) =>
        eb.or([
          eb.and([
            eb('q.state', '=', 'active'),
            eb('q.lease_until', '<=', nowMs),
            eb.not(isIn('q.run_id', list(command.held))),
          ]),
          eb.and([
            eb('q.state', '=', 'waiting'),
            eb.or([
              eb('q.worker', 'is', null),
              eb('q.worker', '=', command.worker),
              eb('q.lease_until', '<=', nowMs),
            ]),
            eb.not(
              eb.exists(
                eb
                  .selectFrom('queue as other')
                  .select('other.run_id')
                  .whereRef('other.conversation_id', '=', 'q.conversation_id')
                  .where((inner) =>
                    inner.or([
                      inner('other.state', '=', 'active'),
                      inner('other.place', '<', inner.ref('q.place')),
                    ]),
                  ),
              ),
            ),
          ]),
        ]),
      )
      .where((eb) =>
        eb.or([eb('q.workspace_id', 'is', null), isIn('q.workspace_id', list(command.workspaceIds))]),
      )
      .where((eb) =>
        eb.not(
          eb.exists(
            eb
              .selectFrom('workspaces as w')
              .select('w.id')
              .whereRef('w.id', '=', 'q.workspace_id')
              .where('w.change_id', 'is not', null),
          ),
        ),
      )
      .$if(runId !== undefined, (query) => query.where('q.run_id', '=', runId ?? ''))
      .orderBy('q.place')
      .limit(CANDIDATES),
  )
}

export function* renewLeases(
  dialect: Dialect,
  command: { worker: string; runIds: readonly string[]; leaseMs: number },
): Script<RunId[]> {
  yield* lockQueued(dialect, command.runIds)
  const rows = yield* all(
    dialect.db
      .updateTable('queue')
      .set({ lease_until: leaseEnd(dialect, command.leaseMs) })
      .where('worker', '=', command.worker)
      .where('state', '=', 'active')
      .where(dialect.isIn('queue.run_id', dialect.list(command.runIds)))
      .returning('run_id'),
  )
  return rows.map((row) => row.run_id as RunId)
}

export function* releaseLeases(dialect: Dialect, worker: string | null): Script<void> {
  const { db, isIn, list } = dialect
  let active = db.selectFrom('queue').select('run_id').where('state', '=', 'active')
  if (worker !== null) active = active.where('worker', '=', worker)
  const runIds = (yield* all(active)).map((row) => row.run_id)
  yield* lockQueued(dialect, runIds)
  let released = db
    .updateTable('queue')
    .set({ lease_until: 0 })
    .where(isIn('queue.run_id', list(runIds)))
  // Another worker may have claimed one in the meantime.
  if (worker !== null) released = released.where('worker', '=', worker)
  yield* all(released)
}

/** True if this worker may still write for the run (L8). */
export function* isHeld(dialect: Dialect, { conversationId, runId, epoch }: Fence): Script<boolean> {
  // A takeover takes the same lock, so nothing is written after it.
  yield* lockConversations(dialect, [conversationId])
  const run = yield* first(dialect.db.selectFrom('runs').select(['epoch', 'ended']).where('id', '=', runId))
  return run?.epoch === epoch && run.ended === 0
}
