import { timestamp } from '../../core/clock.ts'
import type { CreateConversationCommand } from '../../core/ledger.ts'
import { genesis } from '../../core/seal.ts'
import type { Conversation } from '../../protocol/api.ts'
import type { Dialect } from './dialect.ts'
import { readConversation } from './read-conversations.ts'
import type { Refusable } from './refusal.ts'
import { all, first, type Script } from './script.ts'
import { beginSegment } from './segments.ts'

export function* createConversation(
  dialect: Dialect,
  command: CreateConversationCommand & { now: number },
): Script<Refusable<{ conversation: Conversation; repeated: boolean }>> {
  const { db } = dialect
  const { idempotency, tenant } = command
  if (idempotency) {
    const earlier = yield* first(
      db
        .selectFrom('idempotency')
        .select(['fingerprint', 'response'])
        .where('tenant_id', '=', tenant)
        .where('key', '=', idempotency.key),
    )
    if (earlier && earlier.fingerprint !== idempotency.fingerprint) {
      return { refused: 'idempotency_key_reused', why: 'This Idempotency-Key belongs to another request.' }
    }
    if (earlier) return { conversation: JSON.parse(earlier.response) as Conversation, repeated: true }
  }
  const segment = yield* beginSegment(dialect, {
    ...command,
    parent: null,
    tip: genesis,
    frames: [command.frame],
  })
  yield* all(
    db.insertInto('conversations').values({
      id: command.conversationId,
      tenant_id: tenant,
      head_segment: segment,
      workspace_id: command.workspaceId,
      parent_conversation_id: null,
      parent_event_number: null,
      settings: JSON.stringify(command.settings),
      created_at: timestamp(command.now),
      updated_at: timestamp(command.now),
      deleted_at: null,
      deleted_by: null,
    }),
  )
  const conversation = yield* readConversation(dialect, { tenant, id: command.conversationId })
  if ('refused' in conversation) throw new Error('a conversation just made can not be read')
  if (idempotency) {
    yield* all(
      db.insertInto('idempotency').values({
        tenant_id: tenant,
        key: idempotency.key,
        fingerprint: idempotency.fingerprint,
        response: JSON.stringify(conversation),
        created_at: timestamp(command.now),
      }),
    )
  }
  return { conversation, repeated: false }
}
