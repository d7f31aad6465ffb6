import type { OperationDetails } from '../../../core/operations.ts'
import type { FailedChange, WorkChange } from '../../../core/work-sessions.ts'
import type { OperationKind } from '../../../protocol/api/operations.ts'
import { repeatedAnswer, storeAnswer } from '../conversations/idempotency.ts'
import { type NewOperation, noteOperation } from '../conversations/operation-log.ts'
import type { Dialect } from '../dialect.ts'
import { type AppendRequest, append } from '../lines/append.ts'
import { findHead } from '../lines/line.ts'
import { noConversation, type Refusable, type Refusal } from '../refusal.ts'
import { all, first, type Script } from '../script.ts'
import { approvedIn } from './approvals.ts'

/**
 * A workspace's row is its lock. A worker that claims a run and a caller that restores files both take it first, so that the
 * two never happen at once (W8). During a restore the row describes it, for the process that has to finish it (W5).
 */

interface Command {
  workspaceId: string
  change: WorkChange
}

/** Locks the workspace and returns the change in progress there, or null. */
export function* lockWorkspace(
  { db, name, lockRows }: Dialect,
  workspaceId: string,
): Script<{ id: string; details: string } | null> {
  if (name === 'postgres') {
    yield* all(
      db
        .insertInto('workspaces')
        .values({ id: workspaceId, change_id: null, change_details: null })
        .onConflict((conflict) => conflict.doNothing()),
    )
  }
  const row = yield* first(
    db.selectFrom('workspaces').selectAll().where('id', '=', workspaceId).modifyEnd(lockRows),
  )
  return row?.change_id == null ? null : { id: row.change_id, details: row.change_details ?? '{}' }
}

export function* beginChange(
  dialect: Dialect,
  { workspaceId, change }: Command,
): Script<Refusable<{ repeated: unknown } | { done: true }>> {
  const { db } = dialect
  const head = yield* findHead(dialect, change.tenant, change.conversationId, 'change')
  if (!head) return noConversation
  const earlier = yield* repeatedAnswer<object>(dialect, change.tenant, change.idempotency ?? undefined)
  if (earlier) return 'refused' in earlier ? earlier : { repeated: earlier }
  const current = yield* lockWorkspace(dialect, workspaceId)
  if (current) return busy('Files are already being restored here. Try again when that has finished.')
  const run = yield* first(
    db
      .selectFrom('queue')
      .select(['run_id', 'conversation_id'])
      .where('workspace_id', '=', workspaceId)
      .where('state', '=', 'active')
      .limit(1),
  )
  if (run) {
    return busy(
      run.conversation_id === change.conversationId
        ? 'The agent is running. Stop it, or wait until it has finished.'
        : yield* busyElsewhere(dialect, change.tenant, run.conversation_id),
    )
  }
  yield* all(
    db
      .insertInto('workspaces')
      .values({ id: workspaceId, change_id: change.id, change_details: JSON.stringify(change) })
      .onConflict((conflict) =>
        conflict.column('id').doUpdateSet({ change_id: change.id, change_details: JSON.stringify(change) }),
      ),
  )
  return { done: true }
}

/** Records what is needed to finish the change, and appends the frame of its safety checkpoint. */
export function* noteChange(
  dialect: Dialect,
  { workspaceId, change, request }: Command & { request: AppendRequest },
): Script<Refusable<{ done: true }>> {
  yield* findHead(dialect, change.tenant, change.conversationId, 'change')
  const [outcome] = yield* append(dialect, [request])
  if (outcome?.ok === false && outcome.refusal === 'conversation_not_found') return noConversation
  if (!outcome?.ok) throw new Error(`the safety checkpoint of a change was refused: ${outcome?.refusal}`)
  yield* all(
    dialect.db
      .updateTable('workspaces')
      .set({ change_details: JSON.stringify(change) })
      .where('id', '=', workspaceId)
      .where('change_id', '=', change.id),
  )
  return { done: true }
}

export function* pendingChange({ db }: Dialect, workspaceId: string): Script<WorkChange | null> {
  const row = yield* first(
    db
      .selectFrom('workspaces')
      .select('change_details')
      .where('id', '=', workspaceId)
      .where('change_id', 'is not', null),
  )
  return row?.change_details == null ? null : (JSON.parse(row.change_details) as WorkChange)
}

export function* finishChange(
  dialect: Dialect,
  command: Command & { request: AppendRequest; answer: unknown; now: number },
): Script<Refusable<{ isFirst: boolean }>> {
  const { workspaceId, change, request } = command
  yield* findHead(dialect, change.tenant, change.conversationId, 'change')
  const current = yield* lockWorkspace(dialect, workspaceId)
  if (current?.id !== change.id) return { isFirst: false }
  const approvedBefore = change.kind === 'approve' ? yield* approvedIn(dialect, workspaceId) : null
  const [outcome] = yield* append(dialect, [request])
  yield* abandonChange(dialect, command)
  // The files are now in the state that a person chose, which settles an earlier failure.
  yield* all(dialect.db.updateTable('workspaces').set({ failed_change: null }).where('id', '=', workspaceId))
  if (outcome?.ok === false && outcome.refusal === 'conversation_not_found') return noConversation
  if (!outcome?.ok) throw new Error(`the frames of a change were refused: ${outcome?.refusal}`)
  const { tenant, idempotency } = change
  const key = { tenant, idempotency: idempotency ?? undefined, now: command.now }
  yield* storeAnswer(dialect, key, command.answer, true)
  const operation = operationOf(command, approvedBefore?.checkpointId ?? null)
  if (operation) yield* noteOperation(dialect, operation)
  return { isFirst: true }
}

const operationKinds = {
  restore: 'files.restored',
  reset: 'files.reset',
  adopt: 'files.adopted',
  approve: 'files.approved',
} as const satisfies Record<WorkChange['kind'], OperationKind>

/** More paths than this are found by comparing the checkpoints. */
const MOST_PATHS = 10_000

/** Null for a change that has changed nothing. */
function operationOf(
  { change, answer, now }: Command & { answer: unknown; now: number },
  approvedBefore: string | null,
): NewOperation | null {
  const { tenant, conversationId, by, kind, undoing, safety } = change
  const operation = { tenant, conversationId, by, at: now, kind: operationKinds[kind], undoing }
  const given = answer as {
    new_checkpoint?: string
    reset_to?: string
    approved_commit?: string
    restored?: string[]
    deleted?: string[]
  }
  if (kind === 'approve') {
    const { approved_commit = '' } = given
    const approved_before = approvedBefore ?? change.approvedBefore ?? null
    return { ...operation, details: { approved_before, approved_commit } }
  }
  const paths = changedPaths(change, given)
  if (paths?.length === 0 && !undoing) return null
  const details: OperationDetails = {
    safety_checkpoint: safety?.checkpoint_id ?? '',
    new_checkpoint: given.new_checkpoint ?? given.reset_to ?? null,
    ...(paths !== null && paths.length <= MOST_PATHS ? { paths } : {}),
  }
  return { ...operation, details }
}

/** The files that a change has changed; null if only a comparison of its checkpoints shows them. */
function changedPaths(
  { kind, paths, isResumed }: WorkChange,
  { restored = [], deleted = [] }: { restored?: string[]; deleted?: string[] },
): string[] | null {
  if (!isResumed) return [...restored, ...deleted]
  // The paths of a restore may name folders.
  return kind === 'restore' ? null : paths
}

export function* abandonChange({ db }: Dialect, { workspaceId, change }: Command): Script<void> {
  yield* all(
    db
      .updateTable('workspaces')
      .set({ change_id: null, change_details: null })
      .where('id', '=', workspaceId)
      .where('change_id', '=', change.id),
  )
}

export function* failChange(
  { db }: Dialect,
  { workspaceId, change, failed }: Command & { failed: FailedChange },
): Script<void> {
  yield* all(
    db
      .updateTable('workspaces')
      .set({ change_id: null, change_details: null, failed_change: JSON.stringify(failed) })
      .where('id', '=', workspaceId)
      .where('change_id', '=', change.id),
  )
}

export function* failedChange({ db }: Dialect, workspaceId: string): Script<FailedChange | null> {
  const row = yield* first(db.selectFrom('workspaces').select('failed_change').where('id', '=', workspaceId))
  return row?.failed_change == null ? null : (JSON.parse(row.failed_change) as FailedChange)
}

/** Names the conversation only to its own tenant. */
function* busyElsewhere({ db }: Dialect, tenant: string, id: string): Script<string> {
  const own = yield* first(
    db.selectFrom('conversations').select('id').where('id', '=', id).where('tenant_id', '=', tenant),
  )
  const which = own ? own.id : 'another conversation'
  return `The agent is running in this workspace for ${which}. Stop it, or wait until it has finished.`
}

function busy(why: string): Refusal {
  return { refused: 'workspace_busy', why }
}
