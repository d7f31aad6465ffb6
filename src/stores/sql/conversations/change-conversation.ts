import { timestamp } from '../../../core/clock.ts'
import type { AuditAction } from '../../../core/collection.ts'
import type { ConversationChange } from '../../../core/ledger.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { append } from '../lines/append.ts'
import { findHead } from '../lines/line.ts'
import { outsideRuns } from '../lines/segments.ts'
import { lockConversations } from '../lock.ts'
import { abandonAll } from '../queue/queue.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, first, type Script } from '../script.ts'
import { audit } from './audit.ts'

export function* changeConversation(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; now: number } & ConversationChange,
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.id, 'change')
  if (!head) return noConversation
  const row = yield* first(
    dialect.db.selectFrom('conversations').select('settings').where('id', '=', command.id),
  )
  const settings = { ...JSON.parse(row?.settings ?? '{}'), ...command.settings }
  yield* all(
    dialect.db
      .updateTable('conversations')
      .set({ settings: JSON.stringify(settings) })
      .where('id', '=', command.id),
  )
  if (command.title !== undefined) {
    yield* append(dialect, [
      outsideRuns(command, command.id, [{ kind: 'conversation.retitled', title: command.title }]),
    ])
  }
  return { done: true }
}

export function* removeConversation(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; by: string; now: number },
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.id, 'change')
  if (!head) return noConversation
  yield* all(
    dialect.db
      .updateTable('conversations')
      .set({ deleted_at: timestamp(command.now), deleted_by: command.by })
      .where('id', '=', command.id),
  )
  yield* abandonAll(dialect, command.id)
  yield* auditOf(dialect, command, 'conversation.deleted', head.seq)
  return { done: true }
}

export function* undoRemoveConversation(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; by: string; now: number },
): Script<Refusable<{ done: true }>> {
  yield* lockConversations(dialect, [command.id])
  const found = yield* first(
    dialect.db
      .selectFrom('conversations')
      .select(['deleted_at', 'is_expired'])
      .where('id', '=', command.id)
      .where('tenant_id', '=', command.tenant),
  )
  if (!found || found.is_expired === 1) return noConversation
  if (found.deleted_at === null) {
    return { refused: 'message_not_deleted', why: 'The conversation is not deleted. Name a deleted message.' }
  }
  yield* all(
    dialect.db
      .updateTable('conversations')
      .set({ deleted_at: null, deleted_by: null, updated_at: timestamp(command.now) })
      .where('id', '=', command.id),
  )
  const head = yield* findHead(dialect, command.tenant, command.id, 'read')
  yield* auditOf(dialect, command, 'conversation.undeleted', head?.seq ?? 0)
  return { done: true }
}

function auditOf(
  dialect: Dialect,
  { tenant, id, by, now }: { tenant: string; id: string; by: string; now: number },
  action: AuditAction,
  seq: number,
): Script<void> {
  return audit(dialect, { tenant, by, at: now, action, conversationId: id, details: { events: [1, seq] } })
}
