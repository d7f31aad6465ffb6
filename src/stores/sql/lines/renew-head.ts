import type { ConversationId, SegmentId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { leaveQueue } from '../queue/queue.ts'
import { ABANDONED } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { findHead } from './line.ts'
import { beginSegment, setHead } from './segments.ts'

export function* livingConversations(
  { db }: Dialect,
  { after, limit }: { after: string; limit: number },
): Script<{ tenant: string; id: string }[]> {
  return yield* all(
    db
      .selectFrom('conversations')
      .select(['tenant_id as tenant', 'id'])
      .where('deleted_at', 'is', null)
      .where('id', '>', after)
      .orderBy('id')
      .limit(limit),
  )
}

/**
 * Continues a conversation in a new segment. After a backup is restored, readers may have seen events that the ledger no
 * longer has. Their cursors name the old segment, so they learn where to cut and continue (L7).
 */
export function* renewHead(
  dialect: Dialect,
  command: {
    tenant: string
    conversationId: ConversationId
    newSegmentId: SegmentId
    by: string
    now: number
  },
): Script<{ done: true }> {
  const { tenant, conversationId, now, by } = command
  const head = yield* findHead(dialect, tenant, conversationId, 'change')
  if (!head) return { done: true }
  const { head_segment, seq } = head
  const last = yield* first(
    dialect.db
      .selectFrom('events')
      .select(['bytes_before', 'bytes', 'digest'])
      .where('segment', '=', head_segment)
      .where('seq', '=', seq),
  )
  if (!last) throw new Error(`the event ${seq} of ${conversationId} is missing`)
  const segment = yield* beginSegment(dialect, {
    tenant,
    segmentId: command.newSegmentId,
    conversationId,
    now,
    parent: head_segment,
    tip: { seq, bytes: last.bytes_before + last.bytes, digest: last.digest },
    frames: [{ kind: 'conversation.truncated', cut_after: seq, message_id: `event_${seq + 1}`, by }],
  })
  // Accept every cursor in the old segment, however far past this event its reader had read.
  yield* all(
    dialect.db
      .updateTable('segments')
      .set({ collected_to: Number.MAX_SAFE_INTEGER })
      .where('no', '=', head_segment),
  )
  yield* setHead(dialect, conversationId, segment, now)
  yield* abandonActive(dialect, conversationId)
  return { done: true }
}

/** Abandons runs that were active during the backup; their frames so far stay visible. Waiting messages still run. */
function* abandonActive(dialect: Dialect, conversationId: string): Script<void> {
  const { db } = dialect
  const active = yield* all(
    db
      .selectFrom('queue')
      .select('run_id')
      .where('conversation_id', '=', conversationId)
      .where('state', '=', 'active'),
  )
  for (const { run_id } of active) {
    yield* all(db.updateTable('runs').set({ ended: ABANDONED }).where('id', '=', run_id))
    yield* leaveQueue(dialect, [run_id])
  }
}
