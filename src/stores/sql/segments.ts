import { timestamp } from '../../core/clock.ts'
import { partAt } from '../../core/line.ts'
import type { Tip } from '../../core/seal.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { ConversationId, SegmentId } from '../../protocol/ids.ts'
import { type AppendRequest, appendTo } from './append.ts'
import type { Dialect } from './dialect.ts'
import { findHead, lineOf } from './line.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, first, type Script } from './script.ts'

/** The segment that holds event `after` of the conversation's line, and the tip a child is chained to. */
export function* placeOf(
  dialect: Dialect,
  command: { tenant: string; conversationId: ConversationId; after: number },
): Script<Refusable<{ segment: number; tip: Tip }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const part = partAt(yield* lineOf(dialect, head.head_segment, head.seq), command.after)
  if (!part) return { refused: 'event_not_found', why: `The line has no event ${command.after}.` }
  const event = yield* first(
    dialect.db
      .selectFrom('events')
      .select(['bytes_before', 'bytes', 'digest'])
      .where('segment', '=', part.segment)
      .where('seq', '=', command.after),
  )
  if (!event) throw new Error(`event ${command.after} is missing from segment ${part.segment}`)
  const { bytes_before, bytes, digest } = event
  return { segment: part.segment, tip: { seq: command.after, bytes: bytes_before + bytes, digest } }
}

export interface NewSegment {
  tenant: string
  segmentId: SegmentId
  conversationId: ConversationId
  now: number
  parent: number | null
  /** What its first event is chained to. */
  tip: Tip
  /** Why it is there: no segment is ever empty. */
  frames: FrameDraft[]
}

export function* beginSegment(dialect: Dialect, segment: NewSegment): Script<number> {
  const row = yield* first(
    dialect.db
      .insertInto('segments')
      .values({
        id: segment.segmentId,
        conversation_id: segment.conversationId,
        parent: segment.parent,
        cut: segment.tip.seq,
        created_at: timestamp(segment.now),
      })
      .returning('no'),
  )
  if (!row) throw new Error('the segment was not stored')
  const head = { tenant: segment.tenant, segment: row.no, tip: segment.tip, isProjected: true }
  const request = outsideRuns(segment, segment.conversationId, segment.frames)
  yield* appendTo(dialect, new Map([[segment.conversationId, head]]), [request])
  return row.no
}

export function* setHead(
  { db }: Dialect,
  conversationId: string,
  segment: number,
  now: number,
): Script<void> {
  yield* all(
    db
      .updateTable('conversations')
      .set({ head_segment: segment, updated_at: timestamp(now) })
      .where('id', '=', conversationId),
  )
}

/** An append of what happens outside runs. */
export function outsideRuns(
  command: { tenant: string; now: number },
  conversationId: ConversationId,
  frames: readonly FrameDraft[],
): AppendRequest {
  return {
    tenant: command.tenant,
    conversationId,
    runId: null,
    epoch: null,
    after: 0,
    timestamp: timestamp(command.now),
    drafts: frames.map((frame) => ({ kind: frame.kind, text: JSON.stringify(frame), blob: null })),
  }
}
