import { assertTerminalIsLast, endsRun, type RunState, refuseAppend } from '../../core/append.ts'
import type { AppendRefusal } from '../../core/ledger.ts'
import {
  emptyRows,
  isProjected,
  type ProjectionRows,
  projectFrame,
  projectionTables,
} from '../../core/projection.ts'
import { type DraftText, type SealedEvent, seal, type Tip } from '../../core/seal.ts'
import { type Dialect, listQuery } from './dialect.ts'
import { lockConversations } from './lock.ts'
import type { Schema } from './schema.ts'
import { insertAll, replaceAll, type Script } from './script.ts'

export interface AppendRequest {
  tenant: string
  conversationId: string
  runId: string | null
  epoch: number | null
  timestamp: string
  drafts: DraftText[]
}

export type AppendOutcome =
  | { ok: true; firstSeq: number; lastSeq: number }
  | { ok: false; refusal: AppendRefusal }

interface Head {
  tenant: string
  segment: number
  tip: Tip
  projectedSeq: number
  updatedAt: string
}

interface Run extends RunState {
  conversationId: string
}

/** Everything that arrived together goes into one transaction, each request in its turn. */
export function* append(dialect: Dialect, requests: readonly AppendRequest[]): Script<AppendOutcome[]> {
  const heads = yield* loadHeads(dialect, [...new Set(requests.map((request) => request.conversationId))])
  const runs = yield* loadRuns(
    dialect,
    requests.flatMap((request) => request.runId ?? []),
  )
  const events: Schema['events'][] = []
  const projected = emptyRows()
  const outcomes = requests.map((request): AppendOutcome => {
    assertTerminalIsLast(request)
    const head = heads.get(request.conversationId)
    const known = head?.tenant === request.tenant ? head : undefined
    const run = request.runId === null ? undefined : runs.get(request.runId)
    const own = run?.conversationId === request.conversationId ? run : undefined
    const refusal = refuseAppend(known?.segment ?? null, own, request)
    if (refusal || !known) return { ok: false, refusal: refusal ?? 'conversation_not_found' }
    const firstSeq = known.tip.seq + 1
    for (const draft of request.drafts) events.push(sealNext(known, own, request, draft, projected))
    if (own && endsRun(request)) own.ended = true
    known.updatedAt = request.timestamp
    return { ok: true, firstSeq, lastSeq: known.tip.seq }
  })
  yield* insertAll('events', events)
  if (events.length > 0) yield* saveHeads(heads, runs, requests, outcomes)
  for (const table of projectionTables) yield* insertAll(table, projected[table])
  return outcomes
}

function sealNext(
  head: Head,
  run: Run | undefined,
  request: AppendRequest,
  draft: DraftText,
  projected: ProjectionRows,
): Schema['events'] {
  const { conversationId, runId, timestamp } = request
  const sequenceNumber = run ? ++run.frames : null
  const { event, tip } = seal(head.tip, { conversationId, runId, sequenceNumber, timestamp }, draft)
  head.tip = tip
  // While a rebuild is behind, it comes to this event by itself, in order.
  if (head.projectedSeq === event.seq - 1) {
    head.projectedSeq = event.seq
    if (isProjected(draft.kind)) {
      const place = { segment: head.segment, seq: event.seq, conversationId, runId, timestamp }
      projectFrame(projected, place, JSON.parse(draft.text))
    }
  }
  return eventRow(head.segment, event)
}

function eventRow(segment: number, event: SealedEvent): Schema['events'] {
  return {
    segment,
    seq: event.seq,
    bytes_before: event.bytesBefore,
    frame: event.frame,
    blob: event.blob,
    digest: event.digest,
  }
}

const headsIn = listQuery(({ db, isIn }) =>
  db
    .selectFrom('conversations as c')
    .innerJoin('tips as t', 't.segment', 'c.head_segment')
    .select([
      'c.id',
      'c.tenant_id',
      'c.head_segment',
      't.seq',
      't.bytes',
      't.digest',
      't.projected_seq',
      't.updated_at',
    ])
    .where('c.deleted_at', 'is', null)
    .where(isIn('c.id', [])),
)

const runsIn = listQuery(({ db, isIn }) => db.selectFrom('runs as r').selectAll().where(isIn('r.id', [])))

function* loadHeads(dialect: Dialect, conversationIds: readonly string[]): Script<Map<string, Head>> {
  yield* lockConversations(dialect, conversationIds)
  const rows = yield* headsIn(dialect, conversationIds)
  return new Map(
    rows.map((row) => [
      row.id,
      {
        tenant: row.tenant_id,
        segment: row.head_segment,
        tip: { seq: row.seq, bytes: row.bytes, digest: row.digest },
        projectedSeq: row.projected_seq,
        updatedAt: row.updated_at,
      },
    ]),
  )
}

function* loadRuns(dialect: Dialect, runIds: readonly string[]): Script<Map<string, Run>> {
  if (runIds.length === 0) return new Map()
  const rows = yield* runsIn(dialect, [...new Set(runIds)])
  return new Map(
    rows.map((row) => [
      row.id,
      {
        conversationId: row.conversation_id,
        segment: row.segment,
        epoch: row.epoch,
        frames: row.frames,
        ended: row.ended === 1,
      },
    ]),
  )
}

function* saveHeads(
  heads: Map<string, Head>,
  runs: Map<string, Run>,
  requests: readonly AppendRequest[],
  outcomes: readonly AppendOutcome[],
): Script<void> {
  const written = requests.filter((_, index) => outcomes[index]?.ok)
  const tips = [...new Set(written.map((request) => request.conversationId))].flatMap((id) => {
    const head = heads.get(id)
    if (!head) return []
    const { segment, tip, projectedSeq, updatedAt } = head
    return { segment, ...tip, projected_seq: projectedSeq, updated_at: updatedAt }
  })
  yield* replaceAll('tips', ['segment'], tips)
  const runRows = [...new Set(written.flatMap((request) => request.runId ?? []))].flatMap((id) => {
    const run = runs.get(id)
    if (!run) return []
    const { conversationId, segment, epoch, frames, ended } = run
    return { id, conversation_id: conversationId, segment, epoch, frames, ended: ended ? 1 : 0 }
  })
  yield* replaceAll('runs', ['id'], runRows)
}
