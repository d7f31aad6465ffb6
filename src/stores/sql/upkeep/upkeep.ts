import { sql } from 'kysely'
import { emptyRows, type ProjectionRows, projectFrame, projectionTables } from '../../../core/projection.ts'
import { joinSpilled } from '../../../core/seal.ts'
import type { RunRecord, SegmentRecord } from '../../../core/upkeep.ts'
import type { UnknownFrame } from '../../../protocol/frames.ts'
import type { Dialect } from '../dialect.ts'
import { lockConversations } from '../lock.ts'
import type { Schema } from '../schema.ts'
import { all, first, insertAll, type Script } from '../script.ts'

/** Reads for verify and rebuild: the whole store, across tenants and including deleted conversations. */

/** Keys of the blobs that rows refer to, in key order. */
export function* namedBlobs(
  { db }: Dialect,
  { after, limit }: { after: string; limit: number },
): Script<string[]> {
  const rows = yield* all({
    compile: () =>
      sql<{ key: string }>`select distinct key from (
        select blob as key from events where blob is not null and blob > ${after}
        union all select output_ref from tool_outputs where output_ref is not null and output_ref > ${after}
        union all select request_blob from responses where request_blob is not null and request_blob > ${after}
        union all select response_blob from response_ends where response_blob is not null and response_blob > ${after}
        union all select summary_ref from memories where summary_ref is not null and summary_ref > ${after}
        union all select sha256 from attachments where sha256 > ${after}
      ) as named order by key limit ${limit}`.compile(db),
  })
  return rows.map((row) => row.key)
}

export function* blocksAfter(
  { db }: Dialect,
  { after, limit }: { after: string; limit: number },
): Script<{ hash: string; bytes: Uint8Array }[]> {
  return yield* all(
    db
      .selectFrom('request_blocks')
      .select(['hash', 'bytes'])
      .where('hash', '>', after)
      .orderBy('hash')
      .limit(limit),
  )
}

export function* segmentsAfter(
  { db }: Dialect,
  query: { after: number; limit: number; onlyUnprojected: boolean },
): Script<SegmentRecord[]> {
  return yield* all(
    db
      .selectFrom('segments as s')
      .leftJoin('unprojected as u', 'u.segment', 's.no')
      .leftJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 's.parent').onRef('e.seq', '=', 's.cut'),
      )
      .select([
        's.no as segment',
        's.id as segmentId',
        's.conversation_id as conversationId',
        's.parent',
        's.cut',
        'u.projected_seq as projectedSeq',
        's.collected_to as collectedTo',
        'e.digest as parentDigest',
      ])
      .where('s.no', '>', query.after)
      .$if(query.onlyUnprojected, (found) => found.where('u.segment', 'is not', null))
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

export function* books({ db }: Dialect, segment: number): Script<{ runs: RunRecord[]; seq: number }> {
  const end = yield* first(
    db
      .selectFrom('segments as s')
      .select(sql<number>`coalesce((select max(seq) from events where segment = s.no), s.cut)`.as('seq'))
      .where('s.no', '=', segment),
  )
  const rows = yield* all(
    db.selectFrom('runs').select(['id', 'frames', 'ended']).where('segment', '=', segment).orderBy('id'),
  )
  const runs = rows.map(({ id, frames, ended }) => ({ id, frames, ended: ended === 1 }))
  return { runs, seq: end?.seq ?? 0 }
}

/** Deletes all projections; `project` rebuilds them segment by segment, while appends continue. */
export function* dropProjections(dialect: Dialect, _all: null): Script<void> {
  const { db } = dialect
  yield* lockConversations(dialect, 'all')
  for (const table of projectionTables) yield* all(db.deleteFrom(table))
  yield* all(db.deleteFrom('unprojected'))
  yield* all(
    db
      .insertInto('unprojected')
      .columns(['segment', 'projected_seq'])
      .expression(db.selectFrom('segments').select(['no', 'cut'])),
  )
}

/** Texts of spilled frames by blob key. The caller passes them in, because a script can't fetch blobs. */
export type SpilledTexts = Readonly<Record<string, string>>

export type ProjectOutcome = { missingBlobs: string[] } | { projected: number; isDone: boolean }

/**
 * Projects the next events of a segment. It reads and stores under the conversation's lock, so that it catches up however
 * fast appends arrive; from then on appends project their own events.
 */
export function* project(
  dialect: Dialect,
  command: { conversationId: string; segment: number; limit: number; spilled: SpilledTexts },
): Script<ProjectOutcome> {
  const { db } = dialect
  const { segment, limit, spilled } = command
  yield* lockConversations(dialect, [command.conversationId])
  const progress = yield* first(
    db.selectFrom('unprojected').select('projected_seq').where('segment', '=', segment),
  )
  if (!progress) return { projected: 0, isDone: true }
  const events = yield* eventsAfter(dialect, { segment, after: progress.projected_seq, limit })
  const missingBlobs = events.flatMap(({ blob }) => (blob === null || blob in spilled ? [] : blob))
  if (missingBlobs.length > 0) return { missingBlobs }

  const rows = emptyRows()
  for (const event of events) projectEvent(rows, event, spilled)
  for (const table of projectionTables) yield* insertAll(table, rows[table])
  const isDone = events.length < limit
  yield* isDone
    ? all(db.deleteFrom('unprojected').where('segment', '=', segment))
    : all(
        db
          .updateTable('unprojected')
          .set({ projected_seq: progress.projected_seq + events.length })
          .where('segment', '=', segment),
      )
  return { projected: events.length, isDone }
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

/** Every projected row, in a fixed order; a rebuild must reproduce exactly these. */
export function* projections({ db }: Dialect, _all: null): Script<ProjectionRows> {
  const rows: Record<string, unknown[]> = {}
  for (const table of projectionTables) {
    rows[table] = yield* all(db.selectFrom(table).selectAll().orderBy('segment').orderBy('seq'))
  }
  return rows as unknown as ProjectionRows
}
