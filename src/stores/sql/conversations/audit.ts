import { timestamp } from '../../../core/clock.ts'
import type { AuditAction, AuditEntry } from '../../../core/collection.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

export interface NewAuditEntry {
  /** Null for an entry that concerns all tenants. */
  tenant: string | null
  by: string
  /** Milliseconds. */
  at: number
  action: AuditAction
  conversationId: string | null
  /** Ids and numbers, never message text. */
  details: Record<string, unknown>
}

/** Records who did what, in the transaction that does it (D4). */
export function* audit({ db }: Dialect, entry: NewAuditEntry): Script<void> {
  yield* all(
    db.insertInto('audit').values({
      at: timestamp(entry.at),
      tenant_id: entry.tenant,
      by_whom: entry.by,
      action: entry.action,
      conversation_id: entry.conversationId,
      details: JSON.stringify(entry.details),
    }),
  )
}

/** Newest first. */
export function* readAudit(
  { db }: Dialect,
  query: { tenant: string; limit: number; before: number | null },
): Script<{ items: AuditEntry[]; next: number | null }> {
  const rows = yield* all(
    db
      .selectFrom('audit')
      .selectAll()
      .where((eb) => eb.or([eb('tenant_id', '=', query.tenant), eb('tenant_id', 'is', null)]))
      .$if(query.before !== null, (found) => found.where('no', '<', query.before ?? 0))
      .orderBy('no', 'desc')
      .limit(query.limit + 1),
  )
  const items = rows.slice(0, query.limit)
  return {
    items: items.map((row) => ({
      no: row.no,
      at: row.at,
      by: row.by_whom,
      action: row.action as AuditAction,
      conversationId: row.conversation_id,
      details: JSON.parse(row.details) as Record<string, unknown>,
    })),
    next: rows.length > query.limit ? (items.at(-1)?.no ?? null) : null,
  }
}
