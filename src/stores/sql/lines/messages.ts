import { sql } from 'kysely'
import type { Branch, PageQuery } from '../../../core/ledger.ts'
import type { LinePart } from '../../../core/line.ts'
import type { ConversationId, SegmentId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'
import { findHead, lineOf } from './line.ts'
import { readingPlace } from './page.ts'

export interface StoredMessage {
  segmentId: SegmentId
  seq: number
  messageId: string
  role: 'user' | 'assistant'
  runId: string | null
  conversationId: string
  checkpointId: string | null
  createdAt: string
  frame: string
  blob: string | null
}

/** The timeline after a cursor, along the whole line. */
export function* messages(
  dialect: Dialect,
  query: PageQuery,
): Script<Refusable<{ items: StoredMessage[]; more: boolean }>> {
  const place = yield* readingPlace(dialect, query)
  if ('refused' in place) return place
  const items: StoredMessage[] = []
  for (const part of place.line) {
    if (part.to <= place.after || items.length > query.limit) continue
    const rows = yield* messagesOf(dialect, part, place.after, query.limit + 1 - items.length)
    items.push(...rows)
  }
  return { items: items.slice(0, query.limit), more: items.length > query.limit }
}

function* messagesOf({ db }: Dialect, part: LinePart, after: number, limit: number): Script<StoredMessage[]> {
  return yield* all(
    db
      .selectFrom('messages as m')
      .innerJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 'm.segment').onRef('e.seq', '=', 'm.seq'),
      )
      .select([
        sql<SegmentId>`cast(${part.segmentId} as text)`.as('segmentId'),
        'm.seq',
        'm.message_id as messageId',
        'm.role',
        'm.run_id as runId',
        'm.conversation_id as conversationId',
        'm.checkpoint_id as checkpointId',
        'm.created_at as createdAt',
        'e.frame',
        'e.blob',
      ])
      .where('m.segment', '=', part.segment)
      .where('m.seq', '>', after)
      .where('m.seq', '<=', part.to)
      .orderBy('m.seq')
      .limit(limit),
  )
}

export function* line(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId },
): Script<Refusable<LinePart[]>> {
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  return head ? yield* lineOf(dialect, head.head_segment, head.seq) : noConversation
}

/** The conversations forked from this one that still exist. */
export function* branches(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId },
): Script<Refusable<Branch[]>> {
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  if (!head) return noConversation
  const rows = yield* all(
    dialect.db
      .selectFrom('branches as b')
      .innerJoin('conversations as c', 'c.id', 'b.conversation_id')
      .select(['b.conversation_id', 'b.from_event_number', 'b.created_at'])
      .where('b.parent_conversation_id', '=', query.id)
      .where('c.deleted_at', 'is', null)
      .orderBy('b.created_at')
      .orderBy('b.conversation_id'),
  )
  return rows.map((row) => ({
    conversationId: row.conversation_id as ConversationId,
    fromEventNumber: row.from_event_number,
    createdAt: row.created_at,
  }))
}
