import { sql } from 'kysely'
import type { Line, LinePart } from '../../core/line.ts'
import type { Cursor } from '../../protocol/cursor.ts'
import type { ConversationId, SegmentId } from '../../protocol/ids.ts'
import type { Dialect } from './dialect.ts'
import { lockConversations } from './lock.ts'
import { all, first, type Script } from './script.ts'
import { isLastOf } from './tip.ts'

/** A live conversation of this tenant with its head, or undefined. */
export function* findHead(dialect: Dialect, tenant: string, conversationId: string, use: 'change' | 'read') {
  if (use === 'change') yield* lockConversations(dialect, [conversationId])
  const query = dialect.db
    .selectFrom('conversations as c')
    .innerJoin('segments as s', 's.no', 'c.head_segment')
    .innerJoin('events as e', 'e.segment', 's.no')
    .select(['c.id', 'c.head_segment', 's.id as segment_id', 'e.seq', 'e.digest'])
    .where(isLastOf('e', 's.no'))
    .where('c.id', '=', conversationId)
    .where('c.tenant_id', '=', tenant)
    .where('c.deleted_at', 'is', null)
  return yield* first(query)
}

/** The line that ends at event `to` of this segment, root first. */
export function* lineOf({ db }: Dialect, segment: number, to: number): Script<LinePart[]> {
  const rows = yield* all(
    db
      .withRecursive('line(segment, upto, depth)', (cte) =>
        cte
          .selectNoFrom([
            sql<number>`cast(${segment} as bigint)`.as('segment'),
            sql<number>`cast(${to} as bigint)`.as('upto'),
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
  return rows.map((row) => ({
    segment: row.no,
    segmentId: row.id as SegmentId,
    conversationId: row.conversation_id as ConversationId,
    from: row.cut + 1,
    to: row.upto,
  }))
}

/** The line a reader has seen that holds this cursor; undefined when there never was such a place. */
export function* lineRead(dialect: Dialect, cursor: Cursor): Script<Line | undefined> {
  const segment = yield* first(
    dialect.db
      .selectFrom('segments as s')
      .innerJoin('events as e', 'e.segment', 's.no')
      .select(['s.no', 's.cut', 'e.seq'])
      .where(isLastOf('e', 's.no'))
      .where('s.id', '=', cursor.segmentId),
  )
  if (!segment || cursor.seq > segment.seq || cursor.seq < segment.cut) return undefined
  return yield* lineOf(dialect, segment.no, cursor.seq)
}
