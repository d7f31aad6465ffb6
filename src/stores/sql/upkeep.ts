import { type ProjectionRows, projectionTables } from '../../core/projection.ts'
import type { ProjectionStep, SegmentRecord } from '../../core/upkeep.ts'
import type { Dialect } from './dialect.ts'
import { lockConversations } from './lock.ts'
import type { Schema } from './schema.ts'
import { all, first, insertAll, type Script } from './script.ts'

/** What verifying and rebuilding need to see: the store as it is, across tenants, deleted conversations included. */

export function* segmentsAfter(
  { db }: Dialect,
  query: { after: number; limit: number; onlyUnprojected: boolean },
): Script<SegmentRecord[]> {
  return yield* all(
    db
      .selectFrom('segments as s')
      .innerJoin('tips as t', 't.segment', 's.no')
      .leftJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 's.parent').onRef('e.seq', '=', 's.cut'),
      )
      .select([
        's.no as segment',
        's.id as segmentId',
        's.conversation_id as conversationId',
        's.parent',
        's.cut',
        't.seq',
        't.bytes',
        't.digest',
        't.projected_seq as projectedSeq',
        'e.digest as parentDigest',
      ])
      .where('s.no', '>', query.after)
      .$if(query.onlyUnprojected, (eb) => eb.whereRef('t.projected_seq', '<', 't.seq'))
      .orderBy('s.no')
      .limit(query.limit),
  )
}

export function* eventsAfter(
  { db }: Dialect,
  query: { segment: number; after: number; limit: number },
): Script<Schema['events'][]> {
  return yield* all(
    db
      .selectFrom('events')
      .selectAll()
      .where('segment', '=', query.segment)
      .where('seq', '>', query.after)
      .where('seq', '<=', query.after + query.limit)
      .orderBy('seq'),
  )
}

/** Forgets all projections; `project` brings them back segment by segment, also while appends go on. */
export function* dropProjections(dialect: Dialect, _all: null): Script<void> {
  const { db } = dialect
  yield* lockConversations(dialect, 'all')
  for (const table of projectionTables) yield* all(db.deleteFrom(table))
  yield* all(
    db.updateTable('tips').set((eb) => ({
      projected_seq: eb.selectFrom('segments').select('cut').whereRef('segments.no', '=', 'tips.segment'),
    })),
  )
}

/** Stores projected rows of one segment, unless somebody else has gone further meanwhile. */
export function* project(dialect: Dialect, command: ProjectionStep): Script<{ projectedSeq: number }> {
  const { db } = dialect
  yield* lockConversations(dialect, [command.conversationId])
  const tip = yield* first(
    db.selectFrom('tips').select('projected_seq').where('segment', '=', command.segment),
  )
  if (tip?.projected_seq !== command.from) return { projectedSeq: tip?.projected_seq ?? command.to }
  for (const table of projectionTables) yield* insertAll(table, command.rows[table])
  yield* all(db.updateTable('tips').set({ projected_seq: command.to }).where('segment', '=', command.segment))
  return { projectedSeq: command.to }
}

/** Every projected row, in a fixed order: what a rebuild must bring back. */
export function* projections({ db }: Dialect, _all: null): Script<ProjectionRows> {
  return {
    messages: yield* all(db.selectFrom('messages').selectAll().orderBy('segment').orderBy('seq')),
    titles: yield* all(db.selectFrom('titles').selectAll().orderBy('segment').orderBy('seq')),
    branches: yield* all(db.selectFrom('branches').selectAll().orderBy('segment').orderBy('seq')),
  }
}
