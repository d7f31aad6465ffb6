import { sql } from 'kysely'
import type { Fence } from '../../../core/agent-states.ts'
import type { LinePart } from '../../../core/line.ts'
import type { LineUsage, RequestDetails, ResponseEnd, StoredResponse } from '../../../core/responses.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { findHead, lineOf } from '../lines/line.ts'
import { isHeld } from '../queue/leases.ts'
import { leaseLost, noConversation, type Refusable } from '../refusal.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import {
  type RequestBlock,
  type RequestLayout,
  readBlocks,
  readLayout,
  useBlocks,
  writeLayout,
} from './request-blocks.ts'

/** A text that may be too large for its row; `text` is then empty, and a blob holds all of it. */
export interface SpilledText {
  text: string
  blob: string | null
}

/** A request, stored in its row or in blocks that requests share. */
export interface StoredRequest {
  text: string
  blocks: RequestBlock[] | null
  /** The earlier request whose beginning and end it shares; the blocks then hold the rest. */
  base: RequestLayout['base']
}

export function* beginResponse(
  dialect: Dialect,
  command: {
    id: string
    conversationId: string
    runId: string
    fence: Fence
    request: StoredRequest
    details: RequestDetails
    at: string
    /** A retry: the first attempt may have been stored. */
    isRepeated?: boolean
  },
): Script<Refusable<{ isStored: boolean }>> {
  const { id, conversationId, runId, request, details, at } = command
  if (!(yield* isHeld(dialect, command.fence))) return leaseLost
  if (command.isRepeated) {
    const { db } = dialect
    const before = yield* first(db.selectFrom('responses').select('id').where('id', '=', id))
    if (before) return { isStored: true }
  }
  const place = yield* placeOfRun(dialect, runId)
  if (request.base && !(yield* isInSegment(dialect, request.base.id, place.segment)))
    return { isStored: false }
  if (request.blocks && !(yield* useBlocks(dialect, request.blocks))) return { isStored: false }
  yield* all(
    dialect.db.insertInto('responses').values({
      id,
      conversation_id: conversationId,
      ...place,
      run_id: runId,
      created_at: at,
      details: JSON.stringify(details),
      request: request.text,
      request_blob: null,
      request_blocks:
        request.blocks &&
        writeLayout({ blocks: request.blocks.map((block) => block.hash), base: request.base }),
    }),
  )
  return { isStored: true }
}

/** A base is in the same segment: a segment loses its end first, so a base outlives the requests that need it. */
function* isInSegment({ db }: Dialect, id: string, segment: number): Script<boolean> {
  const row = yield* first(db.selectFrom('responses').select('segment').where('id', '=', id))
  return row?.segment === segment
}

/** The end of the segment that a run writes to. */
function* placeOfRun({ db }: Dialect, runId: string): Script<{ segment: number; seq: number }> {
  const place = yield* first(
    db
      .selectFrom('runs as r')
      .select(['r.segment', sql<number>`(select max(seq) from events where segment = r.segment)`.as('seq')])
      .where('r.id', '=', runId),
  )
  if (!place) throw new Error(`there is no run ${runId}`)
  return place
}

/** Stores the outcome of a response, even if its run was lost or its line was left in the meantime. */
export function* endResponse(
  dialect: Dialect,
  command: { id: string; at: string; end: Omit<ResponseEnd, 'response'>; response: SpilledText | null },
): Script<{ done: true }> {
  const { db } = dialect
  const { id, at, end, response } = command
  const begun = yield* first(
    db.selectFrom('responses').select(['segment', 'seq', 'run_id']).where('id', '=', id),
  )
  // Collected in the meantime.
  if (!begun) return { done: true }
  const run = yield* first(db.selectFrom('runs').select('id').where('id', '=', begun.run_id))
  const place = run ? yield* placeOfRun(dialect, begun.run_id) : begun
  yield* all(
    db
      .insertInto('response_ends')
      .values({
        id,
        segment: begun.segment,
        seq: place.seq,
        ended_at: at,
        details: JSON.stringify(end),
        response: response?.text ?? '',
        response_blob: response?.blob ?? null,
      })
      .onConflict((conflict) => conflict.doNothing()),
  )
  return { done: true }
}

type Row = Omit<Schema['responses'], 'segment' | 'request' | 'request_blob' | 'request_blocks'> & {
  ended_at: string | null
  end_seq: number | null
  end_details: string | null
}

/** A request as it is stored; null blocks when its row or a blob has it whole. */
export interface ReadRequest extends SpilledText {
  blocks: Uint8Array[] | null
  layout: RequestLayout | null
}

export interface ReadResponse extends StoredResponse {
  /** The request, then its base, then the base's base. */
  requests: ReadRequest[]
  response: SpilledText | null
}

/** Leaves out the bodies, which a list doesn't need. */
function rowsOn({ db }: Dialect, part: LinePart) {
  return db
    .selectFrom('responses as r')
    .leftJoin('response_ends as e', 'e.id', 'r.id')
    .select(['r.id', 'r.run_id', 'r.conversation_id', 'r.seq', 'r.created_at', 'r.details'])
    .select(['e.ended_at', 'e.seq as end_seq', 'e.details as end_details'])
    .where('r.segment', '=', part.segment)
    .where('r.seq', '<=', part.to)
}

/** Responses on the line, newest first, after the last one of the previous page. */
export function* listResponses(
  dialect: Dialect,
  query: {
    tenant: string
    conversationId: ConversationId
    limit: number
    before: string | null
    upTo: number | null
  },
): Script<Refusable<{ items: StoredResponse[]; more: boolean }>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const items: StoredResponse[] = []
  const { before } = query
  const last = before === null ? null : yield* placeOf(dialect, before)
  for (const part of (yield* lineOf(dialect, head.head_segment, head.seq)).toReversed()) {
    if (items.length > query.limit) break
    if (query.upTo !== null && part.from > query.upTo + 1) continue
    let rows = rowsOn(dialect, part)
    if (query.upTo !== null) rows = rows.where('r.seq', '<=', query.upTo)
    if (before !== null) {
      const seq = last?.seq ?? part.to
      rows = rows.where(sql<boolean>`(r.seq, r.id) < (${seq}, ${before})`)
    }
    // In the order of the index by place, so that a page reads only its own rows.
    const ordered = rows.orderBy('r.seq', 'desc').orderBy('r.id', 'desc')
    const found = yield* all(ordered.limit(query.limit + 1 - items.length))
    items.push(...found.map((row) => asStored(row)))
  }
  return { items: items.slice(0, query.limit), more: items.length > query.limit }
}

/** Adds up the usage of every request on the line. */
export function* lineUsage(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId },
): Script<Refusable<LineUsage>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const total: LineUsage = { requests: 0, input: 0, output: 0, cached: 0, cost: null }
  for (const part of yield* lineOf(dialect, head.head_segment, head.seq)) {
    const rows = yield* all(
      dialect.db
        .selectFrom('responses as r')
        .innerJoin('response_ends as e', 'e.id', 'r.id')
        .select('e.details')
        .where('r.segment', '=', part.segment)
        .where('r.seq', '<=', part.to),
    )
    for (const { details } of rows) {
      const { usage } = JSON.parse(details) as Pick<ResponseEnd, 'usage'>
      total.requests++
      total.input += usage?.input_tokens ?? 0
      total.output += usage?.output_tokens ?? 0
      total.cached += usage?.cached_tokens ?? 0
      if (usage?.cost !== undefined) total.cost = (total.cost ?? 0) + usage.cost
    }
  }
  return total
}

function* placeOf({ db }: Dialect, id: string): Script<{ seq: number } | undefined> {
  return yield* first(db.selectFrom('responses').select('seq').where('id', '=', id))
}

export function* readResponse(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId; id: string },
): Script<Refusable<ReadResponse>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  for (const part of (yield* lineOf(dialect, head.head_segment, head.seq)).toReversed()) {
    const bodies = ['e.response', 'e.response_blob'] as const
    const row = yield* first(rowsOn(dialect, part).select(bodies).where('r.id', '=', query.id))
    if (!row) continue
    return {
      ...asStored(row),
      requests: yield* readRequests(dialect, query.id, part.segment),
      response: row.response === null ? null : { text: row.response, blob: row.response_blob },
    }
  }
  return { refused: 'response_not_found', why: 'The conversation has no such response.' }
}

/** More bases than any writer uses: the rows were not written by us. */
const MAX_BASES = 300

function* readRequests(dialect: Dialect, id: string, segment: number): Script<ReadRequest[]> {
  const found: ReadRequest[] = []
  for (let next: string | undefined = id; next !== undefined; ) {
    const row: { request: string; request_blob: string | null; request_blocks: string | null } | undefined =
      yield* first(
        dialect.db
          .selectFrom('responses')
          .select(['request', 'request_blob', 'request_blocks'])
          .where('id', '=', next)
          .where('segment', '=', segment),
      )
    if (!row || found.length > MAX_BASES) throw new Error(`the request ${next} is missing`)
    const layout: RequestLayout | null = row.request_blocks === null ? null : readLayout(row.request_blocks)
    const blocks = layout && (yield* readBlocks(dialect, layout.blocks))
    found.push({ text: row.request, blob: row.request_blob, blocks, layout })
    next = layout?.base?.id
  }
  return found
}

function asStored(row: Row): StoredResponse {
  const end = row.end_details === null ? null : (JSON.parse(row.end_details) as Omit<ResponseEnd, 'response'>)
  return {
    id: row.id,
    runId: row.run_id,
    conversationId: row.conversation_id,
    eventNumber: row.seq,
    createdAt: row.created_at,
    details: JSON.parse(row.details) as RequestDetails,
    end: end && { ...end, endedAt: row.ended_at ?? '', eventNumber: row.end_seq ?? row.seq },
  }
}
