import { endsRun, type RunState, refuseAppend, wasStored } from '../../../core/append.ts'
import type { AppendRefusal } from '../../../core/ledger.ts'
import {
  emptyRows,
  isProjected,
  type ProjectionRows,
  projectFrame,
  projectionTables,
} from '../../../core/projection.ts'
import { type DraftText, type SealedEvent, seal } from '../../../core/seal.ts'
import { type Dialect, type List, prepared } from '../dialect.ts'
import { lockConversations } from '../lock.ts'
import { leaveQueue } from '../queue/queue.ts'
import { ENDED, RUNNING, type Schema } from '../schema.ts'
import { all, insertAll, replaceAll, type Script } from '../script.ts'
import type { Head } from './head.ts'
import { isLastOf } from './tip.ts'

export interface AppendRequest {
  tenant: string
  conversationId: string
  runId: string | null
  epoch: number | null
  after: number
  timestamp: string
  drafts: DraftText[]
  /** A retry: the first attempt may have been stored. */
  isRepeated?: boolean
}

export type AppendOutcome =
  | { ok: true; firstSeq: number; lastSeq: number }
  | { ok: false; refusal: AppendRefusal }

interface Run extends RunState {
  conversationId: string
  isChanged: boolean
}

/** Appends all requests of a group in one transaction, in order. `given` replaces the conversations' own heads. */
export function* append(
  dialect: Dialect,
  requests: readonly AppendRequest[],
  given?: Map<string, Head>,
): Script<AppendOutcome[]> {
  const heads =
    given ?? (yield* loadHeads(dialect, new Set(requests.map(({ conversationId }) => conversationId))))
  const runs = yield* loadRuns(
    dialect,
    requests.flatMap((request) => request.runId ?? []),
  )
  const events: Schema['events'][] = []
  const projected = emptyRows()
  const touched = new Map<string, string>()
  const outcomes = requests.map((request): AppendOutcome => {
    const found = heads.get(request.conversationId)
    const head = found?.tenant === request.tenant ? found : undefined
    const known = request.runId === null ? undefined : runs.get(request.runId)
    const run = known?.conversationId === request.conversationId ? known : undefined
    const refusal = refuseAppend(head?.segment ?? null, run, request)
    // The events are already stored; no caller needs their numbers.
    if (refusal && request.isRepeated && wasStored(run, request)) return { ok: true, firstSeq: 1, lastSeq: 0 }
    if (refusal || !head) return { ok: false, refusal: refusal ?? 'conversation_not_found' }
    const firstSeq = head.tip.seq + 1
    for (const draft of request.drafts) {
      events.push(sealNext(head, run, request, draft, projected))
      if (isProjected(draft.kind)) touched.set(request.conversationId, request.timestamp)
    }
    if (run) run.isChanged = true
    if (run && endsRun(request)) run.ended = true
    return { ok: true, firstSeq, lastSeq: head.tip.seq }
  })
  yield* insertAll('events', events)
  yield* saveRuns(runs)
  yield* leaveQueue(
    dialect,
    [...runs].flatMap(([id, run]) => (run.isChanged && run.ended ? id : [])),
  )
  yield* touch(dialect, touched)
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
  if (head.isProjected && isProjected(draft.kind)) {
    const place = { segment: head.segment, seq: event.seq, conversationId, runId, timestamp }
    projectFrame(projected, place, JSON.parse(draft.text))
  }
  return eventRow(head.segment, event)
}

function eventRow(segment: number, event: SealedEvent): Schema['events'] {
  return {
    segment,
    seq: event.seq,
    bytes_before: event.bytesBefore,
    bytes: event.bytes,
    frame: event.frame,
    blob: event.blob,
    digest: event.digest,
  }
}

interface HeadRow {
  id: string
  tenant_id: string
  head_segment: number
  seq: number
  bytes_before: number
  bytes: number
  digest: Uint8Array
  unprojected: number | null
}

const headsIn = prepared<{ ids: List }, HeadRow>(({ db, isIn }, value) =>
  db
    .selectFrom('conversations as c')
    .innerJoin('events as e', 'e.segment', 'c.head_segment')
    .leftJoin('unprojected as u', 'u.segment', 'c.head_segment')
    .select([
      'c.id',
      'c.tenant_id',
      'c.head_segment',
      'e.seq',
      'e.bytes_before',
      'e.bytes',
      'e.digest',
      'u.segment as unprojected',
    ])
    .where('c.deleted_at', 'is', null)
    .where(isLastOf('e', 'c.head_segment'))
    .where(isIn('c.id', value('ids'))),
)

const runsIn = prepared<{ ids: List }, Schema['runs']>(({ db, isIn }, value) =>
  db
    .selectFrom('runs as r')
    .selectAll()
    .where(isIn('r.id', value('ids'))),
)

function* loadHeads(dialect: Dialect, ids: ReadonlySet<string>): Script<Map<string, Head>> {
  const conversationIds = [...ids]
  yield* lockConversations(dialect, conversationIds)
  const heads = dialect.knownHeads ?? new Map<string, Head>()
  const unknown = conversationIds.filter((id) => !heads.has(id))
  for (const row of unknown.length === 0 ? [] : yield* headsIn(dialect, { ids: dialect.list(unknown) })) {
    heads.set(row.id, {
      tenant: row.tenant_id,
      segment: row.head_segment,
      tip: { seq: row.seq, bytes: row.bytes_before + row.bytes, digest: row.digest },
      isProjected: row.unprojected === null,
    })
  }
  return heads
}

function* loadRuns(dialect: Dialect, runIds: readonly string[]): Script<Map<string, Run>> {
  if (runIds.length === 0) return new Map()
  const rows = yield* runsIn(dialect, { ids: dialect.list([...new Set(runIds)]) })
  return new Map(
    rows.map((row) => [
      row.id,
      {
        conversationId: row.conversation_id,
        segment: row.segment,
        epoch: row.epoch,
        frames: row.frames,
        ended: row.ended !== RUNNING,
        isChanged: false,
      },
    ]),
  )
}

function* saveRuns(runs: Map<string, Run>): Script<void> {
  const rows = [...runs].flatMap(([id, { conversationId, segment, epoch, frames, ended, isChanged }]) =>
    isChanged
      ? { id, conversation_id: conversationId, segment, epoch, frames, ended: ended ? ENDED : RUNNING }
      : [],
  )
  yield* replaceAll('runs', ['id'], rows)
}

/** Moves conversations with new activity up in the list. */
function* touch({ db, isIn, list }: Dialect, touched: ReadonlyMap<string, string>): Script<void> {
  const latest = [...touched.values()].sort().at(-1)
  if (latest === undefined) return
  yield* all(
    db
      .updateTable('conversations')
      .set({ updated_at: latest })
      .where(isIn('conversations.id', list([...touched.keys()]))),
  )
}
