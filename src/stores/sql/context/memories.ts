import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { findHead, lineOf } from '../lines/line.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'

export interface StoredMemory {
  eventNumber: number
  summaryRef: string | null
  details: string
  createdAt: string
}

/** Memory checkpoints on the line, newest first. */
export function* listMemories(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId },
): Script<Refusable<StoredMemory[]>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const found: StoredMemory[] = []
  for (const part of (yield* lineOf(dialect, head.head_segment, head.seq)).toReversed()) {
    const rows = yield* all(
      dialect.db
        .selectFrom('memories')
        .select(['seq as eventNumber', 'summary_ref as summaryRef', 'details', 'created_at as createdAt'])
        .where('segment', '=', part.segment)
        .where('seq', '<=', part.to)
        .orderBy('seq', 'desc'),
    )
    found.push(...rows)
  }
  return found
}
