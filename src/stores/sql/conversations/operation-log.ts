import { timestamp } from '../../../core/clock.ts'
import type { Operation, OperationDetails, Undoing } from '../../../core/operations.ts'
import type { OperationKind } from '../../../protocol/api/operations.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'

export interface NewOperation {
  tenant: string
  conversationId: string
  by: string
  /** Milliseconds. */
  at: number
  kind: OperationKind
  details: OperationDetails
  undoing?: Undoing | undefined
}

/** Notes an operation in the transaction that carries it out, or that an earlier one was undone or redone. */
export function* noteOperation(dialect: Dialect, operation: NewOperation): Script<void> {
  const { db } = dialect
  const { tenant, conversationId, by, at, kind, details, undoing } = operation
  if (undoing) {
    const left = undoing.isUndone ? (details.left_message_id ?? null) : null
    return yield* markOperation(dialect, { tenant, at, undoing, left })
  }
  yield* all(
    db.insertInto('operations').values({
      tenant_id: tenant,
      conversation_id: conversationId,
      at: timestamp(at),
      by_whom: by,
      kind,
      details: JSON.stringify(details),
      undone_at: 0,
    }),
  )
}

/** Marks an operation as undone or redone; `left` is the first message of the line that the undo left. */
export function* markOperation(
  dialect: Dialect,
  command: { tenant: string; at: number; undoing: Undoing; left: string | null },
): Script<void> {
  const { tenant, at, undoing, left } = command
  const known = yield* findOperation(dialect, { tenant, no: undoing.operation })
  if (!known) return
  const { redo_message_id: _, ...rest } = known.details
  yield* all(
    dialect.db
      .updateTable('operations')
      .set({
        undone_at: undoing.isUndone ? at : 0,
        details: JSON.stringify({ ...rest, ...(left === null ? {} : { redo_message_id: left }) }),
      })
      .where('no', '=', undoing.operation)
      .where('tenant_id', '=', tenant),
  )
}

/** Newest first. */
export function* listOperations(
  { db }: Dialect,
  query: { tenant: string; conversationId: string | null; before: number | null; limit: number },
): Script<{ items: Operation[]; next: number | null }> {
  const rows = yield* all(
    db
      .selectFrom('operations')
      .selectAll()
      .where('tenant_id', '=', query.tenant)
      .$if(query.conversationId !== null, (found) =>
        found.where('conversation_id', '=', query.conversationId ?? ''),
      )
      .$if(query.before !== null, (found) => found.where('no', '<', query.before ?? 0))
      .orderBy('no', 'desc')
      .limit(query.limit + 1),
  )
  const items = rows.slice(0, query.limit).map(asOperation)
  return { items, next: rows.length > query.limit ? (items.at(-1)?.no ?? null) : null }
}

export function* findOperation(
  { db }: Dialect,
  { tenant, no }: { tenant: string; no: number },
): Script<Operation | null> {
  const row = yield* first(
    db.selectFrom('operations').selectAll().where('no', '=', no).where('tenant_id', '=', tenant),
  )
  return row ? asOperation(row) : null
}

/**
 * Undo takes the last operation that is not undone. Redo takes the one that was undone last, unless a new operation has followed
 * since.
 */
export function* nextOperation(
  { db }: Dialect,
  query: { tenant: string; conversationId: string | null; what: 'undo' | 'redo' },
): Script<Operation | null> {
  const { tenant, conversationId, what } = query
  const own = db
    .selectFrom('operations')
    .selectAll()
    .where('tenant_id', '=', tenant)
    .$if(conversationId !== null, (found) => found.where('conversation_id', '=', conversationId ?? ''))
  if (what === 'undo') {
    const done = yield* first(own.where('undone_at', '=', 0).orderBy('no', 'desc').limit(1))
    return done ? asOperation(done) : null
  }
  const undone = yield* first(
    own.where('undone_at', '>', 0).orderBy('undone_at', 'desc').orderBy('no').limit(1),
  )
  if (!undone) return null
  const newer = yield* first(own.where('at', '>', timestamp(undone.undone_at)).limit(1))
  return newer ? null : asOperation(undone)
}

function asOperation(row: Omit<Schema['operations'], 'no'> & { no: number }): Operation {
  return {
    no: row.no,
    at: row.at,
    by: row.by_whom,
    kind: row.kind as OperationKind,
    conversationId: row.conversation_id as ConversationId,
    details: JSON.parse(row.details) as OperationDetails,
    isUndone: row.undone_at > 0,
  }
}
