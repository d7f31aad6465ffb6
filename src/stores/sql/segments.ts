import { timestamp } from '../../core/clock.ts'
import { partAt } from '../../core/line.ts'
import type { Tip } from '../../core/seal.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { ConversationId, SegmentId } from '../../protocol/ids.ts'
import { append } from './append.ts'
import type { Dialect } from './dialect.ts'
import { findHead, lineOf } from './line.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, first, replaceAll, type Script } from './script.ts'

/** The segment that holds event `after` of the conversation's line, and the tip a child is chained to. */
export function* placeOf(
  dialect: Dialect,
  command: { tenant: string; conversationId: ConversationId; after: number },
): Script<Refusable<{ segment: number; tip: Tip }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const part = partAt(yield* lineOf(dialect, head.head_segment, head.seq), command.after)
  if (!part) return { refused: 'event_not_found', why: `The line has no event ${command.after}.` }
  if (command.after === head.seq) return { segment: part.segment, tip: head }
  const rows = yield* all(
    dialect.db
      .selectFrom('events')
      .select(['seq', 'bytes_before', 'digest'])
      .where('segment', '=', part.segment)
      .where('seq', 'in', [command.after, command.after + 1])
      .orderBy('seq'),
  )
  const [event, next] = rows
  if (!event) throw new Error(`event ${command.after} is missing from segment ${part.segment}`)
  const bytes = next?.bytes_before ?? (yield* tipBytes(dialect, part.segment))
  return { segment: part.segment, tip: { seq: command.after, bytes, digest: event.digest } }
}

function* tipBytes({ db }: Dialect, segment: number): Script<number> {
  const tip = yield* first(db.selectFrom('tips').select('bytes').where('segment', '=', segment))
  if (!tip) throw new Error(`segment ${segment} has no tip`)
  return tip.bytes
}

export function* insertSegment(
  { db }: Dialect,
  segment: {
    segmentId: SegmentId
    conversationId: ConversationId
    now: number
    parent: number | null
    tip: Tip
  },
): Script<number> {
  const created_at = timestamp(segment.now)
  const row = yield* first(
    db
      .insertInto('segments')
      .values({
        id: segment.segmentId,
        conversation_id: segment.conversationId,
        parent: segment.parent,
        cut: segment.tip.seq,
        created_at,
      })
      .returning('no'),
  )
  if (!row) throw new Error('the segment was not stored')
  const { seq, bytes, digest } = segment.tip
  yield* replaceAll(
    'tips',
    ['segment'],
    [{ segment: row.no, seq, bytes, digest, projected_seq: seq, updated_at: created_at }],
  )
  return row.no
}

export function* setHead({ db }: Dialect, conversationId: string, segment: number): Script<void> {
  yield* all(db.updateTable('conversations').set({ head_segment: segment }).where('id', '=', conversationId))
}

export function* appendOutsideRuns(
  dialect: Dialect,
  command: { tenant: string; now: number },
  conversationId: ConversationId,
  frames: readonly FrameDraft[],
): Script<void> {
  const [outcome] = yield* append(dialect, [
    {
      tenant: command.tenant,
      conversationId,
      runId: null,
      epoch: null,
      timestamp: timestamp(command.now),
      drafts: frames.map((frame) => ({ kind: frame.kind, text: JSON.stringify(frame), blob: null })),
    },
  ])
  if (!outcome?.ok) throw new Error(`a new segment refused its first frame: ${outcome?.refusal}`)
}
