import { sql } from 'kysely'
import type { Line, LinePart } from '../../../core/line.ts'
import type { Cursor } from '../../../protocol/cursor.ts'
import type { ConversationId, SegmentId } from '../../../protocol/ids.ts'
import { type Dialect, prepared } from '../dialect.ts'
import { lockConversations } from '../lock.ts'
import type { Script } from '../script.ts'
import { isLastOf } from './tip.ts'

/** The segment a conversation's new events go to, and its last event. */
export interface HeadOfLine {
  head_segment: number
  segment_id: string
  cut: number
  seq: number
  digest: Uint8Array
}

const headOf = prepared<{ tenant: string; id: string }, HeadOfLine>(({ db }, value) =>
  db
    .selectFrom('conversations as c')
    .innerJoin('segments as s', 's.no', 'c.head_segment')
    .innerJoin('events as e', 'e.segment', 's.no')
    .select(['c.head_segment', 's.id as segment_id', 's.cut', 'e.seq', 'e.digest'])
    .where('c.id', '=', value('id'))
    .where('c.tenant_id', '=', value('tenant'))
    .where('c.deleted_at', 'is', null)
    .where(isLastOf('e', 's.no')),
)

/** A live conversation of this tenant with its head, or undefined. */
export function* findHead(
  dialect: Dialect,
  tenant: string,
  id: string,
  use: 'change' | 'read',
): Script<HeadOfLine | undefined> {
  if (use === 'change') yield* lockConversations(dialect, [id])
  return (yield* headOf(dialect, { tenant, id }))[0]
}

interface AncestorRow {
  no: number
  id: string
  conversation_id: string
  cut: number
  upto: number
}

const ancestors = prepared<{ segment: number; to: number }, AncestorRow>(({ db }, value) =>
  db
    .withRecursive('line(segment, upto, depth)', (cte) =>
      cte
        .selectNoFrom([
          sql<number>`cast(${value('segment')} as bigint)`.as('segment'),
          sql<number>`cast(${value('to')} as bigint)`.as('upto'),
          sql<number>`0`.as('depth'),
        ])
        .unionAll(
          cte
            .selectFrom('line')
            .innerJoin('segments as s', 's.no', 'line.segment')
            .where('s.parent', 'is not', null)
            .select([
              sql<number>`s.parent`.as('segment'),
              sql<number>`s.cut`.as('upto'),
              sql<number>`line.depth + 1`.as('depth'),
            ]),
        ),
    )
    .selectFrom('line')
    .innerJoin('segments as s', 's.no', 'line.segment')
    .select(['s.no', 's.id', 's.conversation_id', 's.cut', 'line.upto'])
    .orderBy('line.depth', 'desc'),
)

/** The line that ends at event `to` of this segment, root first. */
export function* lineOf(dialect: Dialect, segment: number, to: number): Script<LinePart[]> {
  const rows = yield* ancestors(dialect, { segment, to })
  return rows.map((row) => ({
    segment: row.no,
    segmentId: row.id as SegmentId,
    conversationId: row.conversation_id as ConversationId,
    from: row.cut + 1,
    to: row.upto,
  }))
}

const segmentWithEnd = prepared<{ id: string }, { no: number; cut: number; seq: number }>(({ db }, value) =>
  db
    .selectFrom('segments as s')
    .select([
      's.no',
      's.cut',
      // A reader of events that have since been collected gets the same place to cut as before (L7).
      sql<number>`coalesce(s.collected_to, (select max(seq) from events where segment = s.no), s.cut)`.as(
        'seq',
      ),
    ])
    .where('s.id', '=', value('id')),
)

/** The line that a reader at this cursor has seen; undefined if the cursor's place never existed. */
export function* lineRead(dialect: Dialect, cursor: Cursor): Script<Line | undefined> {
  const [segment] = yield* segmentWithEnd(dialect, { id: cursor.segmentId })
  if (!segment || cursor.seq > segment.seq || cursor.seq < segment.cut) return undefined
  return yield* lineOf(dialect, segment.no, cursor.seq)
}
