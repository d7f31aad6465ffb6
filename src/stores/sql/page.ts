import { sql } from 'kysely'
import type { PageQuery } from '../../core/ledger.ts'
import {
  headOf,
  type LinePart,
  partAt,
  partsBetween,
  placeOnLine,
  type ReadingPlace,
} from '../../core/line.ts'
import type { Cursor } from '../../protocol/cursor.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import type { Dialect } from './dialect.ts'
import { findHead, lineOf, lineRead } from './line.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, first, type Script } from './script.ts'

/** Frames as rows hold them: `blobs` names those whose rest has to be fetched. */
export interface StoredPage {
  conversationId: ConversationId
  cutAfter: number | null
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
  const parts = partsBetween(line, after + 1, after + query.limit)
  const rows = parts.length === 0 ? [] : yield* readEvents(dialect, parts, query.maxBytes)
  const lastSeq = rows.at(-1)?.seq ?? after
  const lastPart = partAt(line, lastSeq)
  if (!lastPart) throw new Error(`event ${lastSeq} is on no part of its line`)
  return {
    conversationId: query.conversationId,
    cutAfter,
    firstSeq: after + 1,
    frames: rows.map((row) => row.frame),
    blobs: rows.flatMap((row, index) => (row.blob === null ? [] : { index, blob: row.blob })),
    parts: partsBetween(line, after + 1, lastSeq),
    last: { segmentId: lastPart.segmentId, seq: lastSeq },
    digest: rows.at(-1)?.digest ?? (yield* digestAt(dialect, lastPart.segment, lastSeq)),
    atEnd: lastSeq === headOf(line),
  }
}

/** The line as it is now, and where this cursor's reader goes on along it. */
export function* readingPlace(
  dialect: Dialect,
  query: Pick<PageQuery, 'tenant' | 'conversationId' | 'cursor'>,
): Script<Refusable<ReadingPlace & { line: LinePart[] }>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  if (!query.cursor) return { line, after: 0, cutAfter: null }
  const read = yield* lineRead(dialect, query.cursor)
  const place = read && placeOnLine(line, read)
  if (!place) return { refused: 'bad_cursor', why: 'The cursor is not of this conversation.' }
  return { line, ...place }
}

interface EventRow {
  seq: number
  frame: string
  blob: string | null
  digest: Uint8Array
}

/**
 * The events of these parts, fewer when they would be more than `maxBytes`, but one at least. Numbers have no gaps, so
 * the parts' bounds are the page's bounds and nothing beyond it is looked at.
 */
function* readEvents({ db }: Dialect, parts: readonly LinePart[], maxBytes: number): Script<EventRow[]> {
  const [start] = parts
  if (!start) return []
  const before = yield* first(
    db
      .selectFrom('events')
      .select('bytes_before')
      .where('segment', '=', start.segment)
      .where('seq', '=', start.from),
  )
  if (!before) throw new Error(`event ${start.from} is missing from segment ${start.segment}`)
  const rows: EventRow[] = []
  for (const part of parts) {
    const wanted = part.to - part.from + 1
    const found = yield* all(
      db
        .selectFrom('events')
        .select(['seq', 'frame', 'blob', 'digest'])
        .where('segment', '=', part.segment)
        .where('seq', '>=', part.from)
        .where('seq', '<=', part.to)
        .where(sql<boolean>`(bytes_before < ${before.bytes_before + maxBytes} or seq = ${start.from})`)
        .orderBy('seq'),
    )
    rows.push(...found)
    if (found.length < wanted) break
  }
  return rows
}

function* digestAt({ db }: Dialect, segment: number, seq: number): Script<Uint8Array> {
  const row = yield* first(
    db.selectFrom('events').select('digest').where('segment', '=', segment).where('seq', '=', seq),
  )
  if (!row) throw new Error(`event ${seq} is missing from segment ${segment}`)
  return row.digest
}
