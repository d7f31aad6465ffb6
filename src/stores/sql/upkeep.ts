import { emptyRows, type ProjectionRows, projectFrame, projectionTables } from '../../core/projection.ts'
import { joinSpilled } from '../../core/seal.ts'
import type { SegmentRecord } from '../../core/upkeep.ts'
import type { UnknownFrame } from '../../protocol/frames.ts'
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

/** Frames that spilled, by their blob: a script can't fetch them, so it is handed them. */
export type SpilledTexts = Readonly<Record<string, string>>

export type ProjectOutcome = { missingBlobs: string[] } | { projectedSeq: number; seq: number }

/**
 * Projects the next events of a segment. Reading and storing happen under the conversation's lock, so that it comes to
 * the end however fast appends come in; from then on they project themselves.
 */
export function* project(
  dialect: Dialect,
  command: { conversationId: string; segment: number; limit: number; spilled: SpilledTexts },
): Script<ProjectOutcome> {
  const { db } = dialect
  const { segment, limit, spilled } = command
  yield* lockConversations(dialect, [command.conversationId])
  const tip = yield* first(
    db.selectFrom('tips').select(['projected_seq', 'seq']).where('segment', '=', segment),
  )
  if (!tip) throw new Error(`segment ${segment} has no tip`)
  const events = yield* eventsAfter(dialect, { segment, after: tip.projected_seq, limit })
  const missingBlobs = events.flatMap(({ blob }) => (blob === null || blob in spilled ? [] : blob))
  if (missingBlobs.length > 0) return { missingBlobs }

  const rows = emptyRows()
  for (const event of events) projectEvent(rows, event, spilled)
  for (const table of projectionTables) yield* insertAll(table, rows[table])
  const projectedSeq = tip.projected_seq + events.length
  yield* all(db.updateTable('tips').set({ projected_seq: projectedSeq }).where('segment', '=', segment))
  return { projectedSeq, seq: tip.seq }
}

function projectEvent(rows: ProjectionRows, event: Schema['events'], spilled: SpilledTexts): void {
  const text = event.blob === null ? event.frame : joinSpilled(event.frame, spilled[event.blob] ?? '')
  const frame = JSON.parse(text) as UnknownFrame
  const place = {
    segment: event.segment,
    seq: event.seq,
    conversationId: frame.conversation_id,
    runId: frame.stream_id,
    timestamp: frame.server_timestamp,
  }
  projectFrame(rows, place, frame)
}

/** Every projected row, in a fixed order: what a rebuild must bring back. */
export function* projections({ db }: Dialect, _all: null): Script<ProjectionRows> {
  return {
    messages: yield* all(db.selectFrom('messages').selectAll().orderBy('segment').orderBy('seq')),
    titles: yield* all(db.selectFrom('titles').selectAll().orderBy('segment').orderBy('seq')),
    branches: yield* all(db.selectFrom('branches').selectAll().orderBy('segment').orderBy('seq')),
  }
}
