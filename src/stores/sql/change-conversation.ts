import { timestamp } from '../../core/clock.ts'
import type { ConversationChange } from '../../core/ledger.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import { append } from './append.ts'
import type { Dialect } from './dialect.ts'
import { findHead } from './line.ts'
import { clearQueue } from './queue.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, first, type Script } from './script.ts'
import { outsideRuns } from './segments.ts'

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
  yield* clearQueue(dialect, command.id)
  return { done: true }
}
