import { sql } from 'kysely'
import type { PageQuery } from '../../../core/ledger.ts'
import {
  headOf,
  type LinePart,
  partAt,
  partsBetween,
  placeOnLine,
  type ReadingPlace,
} from '../../../core/line.ts'
import type { Cursor } from '../../../protocol/cursor.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import { type Dialect, prepared } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { first, type Script } from '../script.ts'
import { findHead, type HeadOfLine, lineOf, lineRead } from './line.ts'

/** Frames as stored in rows; `blobs` lists the spilled ones, whose rest must be fetched. */
export interface StoredPage {
  conversationId: ConversationId
  cut: Cursor | null
  firstSeq: number
  frames: string[]
  blobs: { index: number; blob: string }[]
  parts: LinePart[]
  last: Cursor
  digest: Uint8Array
  atEnd: boolean
}

export function* page(
  dialect: Dialect,
  query: PageQuery & { maxBytes: number },
): Script<Refusable<StoredPage>> {
  const found = yield* readingPlace(dialect, query)
  if ('refused' in found) return found
  const { line, after, cutAfter } = found
  const rows =
    query.before === undefined
      ? yield* readEvents(dialect, partsBetween(line, after + 1, after + query.limit), query.maxBytes)
      : yield* readEventsBack(dialect, line, query.before, query)
  const firstSeq = rows[0]?.seq ?? after + 1
  const lastSeq = rows.at(-1)?.seq ?? after
  const last = cursorAt(line, lastSeq)
  return {
    conversationId: query.conversationId,
    cut: cutAfter === null ? null : cursorAt(line, cutAfter),
    firstSeq,
    frames: rows.map((row) => row.frame),
    blobs: rows.flatMap((row, index) => (row.blob === null ? [] : { index, blob: row.blob })),
    parts: partsBetween(line, firstSeq, lastSeq),
    last,
    digest: rows.at(-1)?.digest ?? (yield* digestAt(dialect, line, lastSeq)),
    atEnd: lastSeq === headOf(line),
  }
}

/** The current line, and where the cursor's reader continues on it. */
export function* readingPlace(
  dialect: Dialect,
  query: Pick<PageQuery, 'tenant' | 'conversationId' | 'cursor'>,
): Script<Refusable<ReadingPlace & { line: LinePart[] }>> {
  const { tenant, conversationId, cursor } = query
  const head = yield* findHead(dialect, tenant, conversationId, 'read')
  if (!head) return noConversation
  const near = cursor && placeInHead(head, conversationId, cursor)
  if (near) return near
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  if (!cursor) return { line, after: 0, cutAfter: null }
  const read = yield* lineRead(dialect, cursor)
  const place = read && placeOnLine(line, read)
  if (!place) return { refused: 'bad_cursor', why: 'The cursor does not belong to this conversation.' }
  return { line, ...place }
}

/** Followers and readers near the end are in the head segment, so the rest of the line is not needed. */
function placeInHead(
  head: HeadOfLine,
  conversationId: ConversationId,
  cursor: Cursor,
): (ReadingPlace & { line: LinePart[] }) | null {
  if (cursor.segmentId !== head.segment_id || cursor.seq <= head.cut || cursor.seq > head.seq) return null
  const part = {
    segment: head.head_segment,
    segmentId: cursor.segmentId,
    conversationId,
    from: head.cut + 1,
    to: head.seq,
  }
  return { line: [part], after: cursor.seq, cutAfter: null }
}

interface EventRow {
  seq: number
  frame: string
  blob: string | null
  digest: Uint8Array
}

/**
 * The events of these parts up to `maxBytes`, but at least one. Event numbers have no gaps, so the parts' bounds are the
 * page's bounds and no event outside the page is read.
 */
function* readEvents(dialect: Dialect, parts: readonly LinePart[], maxBytes: number): Script<EventRow[]> {
  const [start] = parts
  if (!start) return []
  const size = { startSegment: start.segment, start: start.from, maxBytes }
  if (parts.length === 1) {
    return yield* eventsOf(dialect, { segment: start.segment, from: start.from, to: start.to, ...size })
  }
  const places = JSON.stringify(parts.map(({ segment, from, to }) => [segment, from, to]))
  return yield* eventsAlong(dialect, { places, ...size })
}

interface PageSize {
  startSegment: number
  start: number
  maxBytes: number
}

type Values<T> = <K extends keyof T & string>(name: K) => T[K]

function isWithin(value: Values<PageSize>) {
  return sql<boolean>`(e.seq = ${value('start')} or e.bytes_before < cast(${value('maxBytes')} as bigint) +
    (select bytes_before from events where segment = ${value('startSegment')} and seq = ${value('start')}))`
}

const eventsOf = prepared<PageSize & { segment: number; from: number; to: number }, EventRow>(
  ({ db }, value) =>
    db
      .selectFrom('events as e')
      .select(['e.seq', 'e.frame', 'e.blob', 'e.digest'])
      .where('e.segment', '=', value('segment'))
      .where('e.seq', '>=', value('from'))
      .where('e.seq', '<=', value('to'))
      .where(isWithin(value))
      .orderBy('e.seq'),
)

/** Reads events across many segments in one statement: a line may be hundreds of forks deep. */
const eventsAlong = prepared<PageSize & { places: string }, EventRow>(({ db, items }, value) => ({
  compile: () =>
    sql<EventRow>`select e.seq, e.frame, e.blob, e.digest
      from ${items(value('places'), ['segment', 'lowest', 'highest'])} as p
      join events e on e.segment = p.segment and e.seq >= p.lowest and e.seq <= p.highest
      where ${isWithin(value)} order by e.seq`.compile(db),
}))

/** The events just before this one up to `maxBytes`, but at least one. */
function* readEventsBack(
  dialect: Dialect,
  line: readonly LinePart[],
  before: number,
  { limit, maxBytes }: { limit: number; maxBytes: number },
): Script<EventRow[]> {
  const end = Math.min(before - 1, headOf(line))
  const parts = partsBetween(line, end - limit + 1, end)
  const places = JSON.stringify(parts.map(({ segment, from, to }) => [segment, from, to]))
  return yield* eventsBack(dialect, { places, endSegment: partOf(line, end).segment, end, maxBytes })
}

const eventsBack = prepared<{ places: string; endSegment: number; end: number; maxBytes: number }, EventRow>(
  ({ db, items }, value) => ({
    compile: () =>
      sql<EventRow>`select e.seq, e.frame, e.blob, e.digest
        from ${items(value('places'), ['segment', 'lowest', 'highest'])} as p
        join events e on e.segment = p.segment and e.seq >= p.lowest and e.seq <= p.highest
        where e.seq = ${value('end')} or e.bytes_before >= (
          select bytes_before + bytes from events where segment = ${value('endSegment')} and seq = ${value('end')}
        ) - cast(${value('maxBytes')} as bigint)
        order by e.seq`.compile(db),
  }),
)

function cursorAt(line: readonly LinePart[], seq: number): Cursor {
  return { segmentId: partOf(line, seq).segmentId, seq }
}

function partOf(line: readonly LinePart[], seq: number): LinePart {
  const part = partAt(line, seq)
  if (!part) throw new Error(`event ${seq} is not on the line`)
  return part
}

function* digestAt({ db }: Dialect, line: readonly LinePart[], seq: number): Script<Uint8Array> {
  const { segment } = partOf(line, seq)
  const row = yield* first(
    db.selectFrom('events').select('digest').where('segment', '=', segment).where('seq', '=', seq),
  )
  if (!row) throw new Error(`event ${seq} is missing from segment ${segment}`)
  return row.digest
}
