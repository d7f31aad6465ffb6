import { timestamp } from '../../../core/clock.ts'
import type { Tip } from '../../../core/seal.ts'
import type { FrameDraft } from '../../../protocol/frames.ts'
import type { ConversationId, SegmentId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { all, first, type Script } from '../script.ts'
import { type AppendRequest, append } from './append.ts'

export interface NewSegment {
  tenant: string
  segmentId: SegmentId
  conversationId: ConversationId
  now: number
  parent: number | null
  /** The tip that its first event is chained to. */
  tip: Tip
  /** Its first frames, which record why it exists: no segment is ever empty. */
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
  const { tenant, conversationId, tip, now, frames } = segment
  yield* appendToSegment(dialect, { tenant, conversationId, segment: row.no, tip, now, frames })
  return row.no
}

/** Appends to a segment that has just become the conversation's head, or is about to. */
export function* appendToSegment(
  dialect: Dialect,
  command: {
    tenant: string
    conversationId: ConversationId
    segment: number
    tip: Tip
    now: number
    frames: readonly FrameDraft[]
  },
): Script<void> {
  const { tenant, conversationId, segment, tip } = command
  const unprojected = yield* first(
    dialect.db.selectFrom('unprojected').select('segment').where('segment', '=', segment),
  )
  const head = { tenant, segment, tip, isProjected: !unprojected }
  const request = outsideRuns(command, conversationId, command.frames)
  yield* append(dialect, [request], new Map([[conversationId, head]]))
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

/** Builds an append for frames that belong to no run. */
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
