import { timestamp } from '../../../core/clock.ts'
import type { CreateConversationCommand } from '../../../core/ledger.ts'
import { genesis } from '../../../core/seal.ts'
import type { Conversation } from '../../../protocol/api/conversations.ts'
import type { Dialect } from '../dialect.ts'
import { beginSegment } from '../lines/segments.ts'
import type { Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'
import { repeatedAnswer, storeAnswer } from './idempotency.ts'
import { readConversation } from './read-conversations.ts'

export function* createConversation(
  dialect: Dialect,
  command: CreateConversationCommand & { now: number },
): Script<Refusable<{ conversation: Conversation; repeated: boolean }>> {
  const { db } = dialect
  const { idempotency, tenant, now } = command
  const earlier = yield* repeatedAnswer<Conversation>(dialect, tenant, idempotency)
  if (earlier) return 'refused' in earlier ? earlier : { conversation: earlier, repeated: true }
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
  if ('refused' in conversation) throw new Error('the new conversation could not be read back')
  yield* storeAnswer(dialect, { tenant, idempotency, now }, conversation)
  return { conversation, repeated: false }
}
