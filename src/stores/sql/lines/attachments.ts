import type { Attachment } from '../../../core/queue.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'
import { findHead, lineOf } from './line.ts'

/** Attachments of messages on the line, oldest first. */
export function* lineAttachments(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId },
): Script<Refusable<Attachment[]>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const found: Attachment[] = []
  for (const part of yield* lineOf(dialect, head.head_segment, head.seq)) {
    const rows = yield* all(
      dialect.db
        .selectFrom('attachments')
        .select(['name', 'sha256', 'bytes'])
        .where('segment', '=', part.segment)
        .where('seq', '<=', part.to)
        .orderBy('seq')
        .orderBy('place'),
    )
    found.push(...rows)
  }
  return found
}
