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
export function* noteOperation({ db }: Dialect, operation: NewOperation): Script<void> {
  const { tenant, conversationId, by, at, kind, details, undoing } = operation
  if (undoing) {
    yield* all(
      db
        .updateTable('operations')
        .set({ is_undone: undoing.isUndone ? 1 : 0 })
        .where('no', '=', undoing.operation)
        .where('tenant_id', '=', tenant),
    )
    return
  }
  yield* all(
    db.insertInto('operations').values({
      tenant_id: tenant,
      conversation_id: conversationId,
      at: timestamp(at),
      by_whom: by,
      kind,
      details: JSON.stringify(details),
      is_undone: 0,
    }),
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
 * Undo takes the last operation that is not undone. Redo takes the first one that was undone and that no other operation has
 * followed since.
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
  const done = yield* first(own.where('is_undone', '=', 0).orderBy('no', 'desc').limit(1))
  if (what === 'undo') return done ? asOperation(done) : null
  const undone = yield* first(
    own
      .where('is_undone', '=', 1)
      .where('no', '>', done?.no ?? 0)
      .orderBy('no')
      .limit(1),
  )
  return undone ? asOperation(undone) : null
}

function asOperation(row: Omit<Schema['operations'], 'no'> & { no: number }): Operation {
  return {
    no: row.no,
    at: row.at,
    by: row.by_whom,
    kind: row.kind as OperationKind,
    conversationId: row.conversation_id as ConversationId,
    details: JSON.parse(row.details) as OperationDetails,
    isUndone: row.is_undone === 1,
  }
}
