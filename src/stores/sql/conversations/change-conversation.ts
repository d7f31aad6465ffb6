import { timestamp } from '../../../core/clock.ts'
import type { ConversationChange } from '../../../core/ledger.ts'
import type { Undoing } from '../../../core/operations.ts'
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
import { noteOperation } from './operation-log.ts'
import { readConversation } from './read-conversations.ts'

export function* changeConversation(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; now: number } & ConversationChange,
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.id, 'change')
  if (!head) return noConversation
  const row = yield* first(
    dialect.db.selectFrom('conversations').select('settings').where('id', '=', command.id),
  )
  const earlier = JSON.parse(row?.settings ?? '{}') as Record<string, unknown>
  const settings = { ...earlier, ...command.settings }
  yield* all(
    dialect.db
      .updateTable('conversations')
      .set({ settings: JSON.stringify(settings) })
      .where('id', '=', command.id),
  )
  if (command.by !== undefined) yield* noteChange(dialect, { ...command, by: command.by }, earlier)
  if (command.title !== undefined) {
    yield* append(dialect, [
      outsideRuns(command, command.id, [{ kind: 'conversation.retitled', title: command.title }]),
    ])
  }
  return { done: true }
}

/** Notes the values that a person has changed, before and after. */
function* noteChange(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; now: number; by: string } & ConversationChange,
  earlier: Readonly<Record<string, unknown>>,
): Script<void> {
  const { tenant, id, now, by, settings, title, undoing } = command
  // Without a value of its own, a setting had its default.
  const before = Object.fromEntries(Object.keys(settings).map((key) => [key, earlier[key] ?? null]))
  const titles = yield* titleNow(dialect, tenant, id)
  const hadTitle = title === undefined ? {} : { title: titles }
  const hasTitle = title === undefined ? {} : { title }
  yield* noteOperation(dialect, {
    tenant,
    by,
    at: now,
    conversationId: id,
    kind: 'conversation.changed',
    details: {
      before: { settings: before, ...hadTitle },
      after: { settings, ...hasTitle },
    },
    undoing,
  })
}

/** The title that people or the agent have given it; null without one. */
function* titleNow(dialect: Dialect, tenant: string, id: ConversationId): Script<string | null> {
  const found = yield* readConversation(dialect, { tenant, id })
  return 'refused' in found || !found.is_titled ? null : found.title
}

export function* removeConversation(
  dialect: Dialect,
  command: { tenant: string; id: ConversationId; by: string; now: number; undoing?: Undoing | undefined },
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
  command: { tenant: string; id: ConversationId; by: string; now: number; undoing?: Undoing | undefined },
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

function* auditOf(
  dialect: Dialect,
  command: { tenant: string; id: string; by: string; now: number; undoing?: Undoing | undefined },
  action: 'conversation.deleted' | 'conversation.undeleted',
  seq: number,
): Script<void> {
  const { tenant, id, by, now, undoing } = command
  yield* audit(dialect, { tenant, by, at: now, action, conversationId: id, details: { events: [1, seq] } })
  yield* noteOperation(dialect, {
    tenant,
    by,
    at: now,
    conversationId: id,
    kind: action,
    details: {},
    undoing,
  })
}
