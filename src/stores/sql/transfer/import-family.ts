import type { Selectable } from 'kysely'
import { timestamp } from '../../../core/clock.ts'
import { emptyRows, isProjected, projectFrame, projectionTables } from '../../../core/projection.ts'
import { chainDigest, genesis, type Tip } from '../../../core/seal.ts'
import type {
  ExportedFamily,
  ExportedRow,
  ExportedSegment,
  ImportCommand,
  ImportedEvent,
  KnownFamily,
} from '../../../core/transfer.ts'
import { isTerminalKind } from '../../../protocol/frame-kinds.ts'
import type { AnyFrame } from '../../../protocol/frames.ts'
import { type ConversationId, isId } from '../../../protocol/ids.ts'
import { readLayout, useBlocks } from '../context/request-blocks.ts'
import { audit } from '../conversations/audit.ts'
import type { Dialect } from '../dialect.ts'
import type { Refusable } from '../refusal.ts'
import { ABANDONED, type BulkTable, bulkTypes, ENDED, type Schema } from '../schema.ts'
import { all, first, insertAll, replaceAll, type Script } from '../script.ts'
import { collectSegment } from '../upkeep/collect.ts'
import { isRebuilding, rebuilding } from '../upkeep/rebuilding.ts'
import { hex } from './export-family.ts'

/** Stores an imported family. */

/** `deleted_by` of a conversation that is being imported. It stays hidden until the import ends. */
const IMPORT = 'an import that is under way'
/** The collector removes an import that never finished, this long after it began. */
const IMPORT_MS = 24 * 60 * 60 * 1000

export function* knownFamily(
  { db, isIn, list }: Dialect,
  { conversations, segments }: ExportedFamily,
): Script<KnownFamily> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select(['c.id', 'c.tenant_id', 'c.deleted_at', 'c.deleted_by'])
      .where(isIn('c.id', list(conversations.map((one) => one.id)))),
  )
  const found: KnownFamily['segments'] = []
  for (const { id, upto } of segments) {
    const row = yield* first(
      db
        .selectFrom('segments as s')
        .leftJoin('events as e', (join) => join.onRef('e.segment', '=', 's.no').on('e.seq', '=', upto))
        .select(['s.id', 'e.digest'])
        .where('s.id', '=', id),
    )
    if (row) found.push({ id: row.id, digest: row.digest === null ? null : hex(row.digest) })
  }
  return {
    conversations: rows.map(({ id, tenant_id: tenant, deleted_at, deleted_by }) => ({
      id,
      tenant,
      state: deleted_at === null ? 'living' : deleted_by === IMPORT ? 'importing' : 'deleted',
    })),
    segments: found,
  }
}

/** Removes what an unfinished import has stored, one part at a time. */
export function* abortImport(
  dialect: Dialect,
  { tenant, ids }: { tenant: string; ids: readonly ConversationId[] },
): Script<Refusable<{ isDone: boolean }>> {
  const { db } = dialect
  if (yield* isRebuilding(dialect)) return rebuilding
  for (const id of ids) {
    const row = yield* first(
      db
        .selectFrom('conversations')
        .select('id')
        .where('id', '=', id)
        .where('tenant_id', '=', tenant)
        .where('deleted_by', '=', IMPORT),
    )
    if (!row) continue
    const segments = yield* all(
      db.selectFrom('segments').select(['no', 'cut']).where('conversation_id', '=', id).orderBy('no', 'desc'),
    )
    for (const { no, cut } of segments) {
      const { isDone } = yield* collectSegment(dialect, { segment: no, keepTo: cut })
      if (!isDone) return { isDone }
    }
    yield* all(db.deleteFrom('conversations').where('id', '=', id))
  }
  // Delete segments after all events: the file's conversations may be forks of one another.
  for (const id of ids) {
    const isLeft = yield* first(db.selectFrom('conversations').select('id').where('id', '=', id))
    if (isLeft) continue
    yield* all(db.deleteFrom('segments').where('conversation_id', '=', id))
  }
  return { isDone: true }
}

/** The file contradicts itself or this store. */
class InvalidFile extends Error {}

function* refusingInvalid<T>(script: Script<T>): Script<Refusable<T>> {
  try {
    return yield* script
  } catch (error) {
    if (error instanceof InvalidFile) return { refused: 'invalid_request', why: error.message }
    throw error
  }
}

/** Creates the family's segments and its conversations, which stay hidden until the import ends. */
export function beginImport(
  dialect: Dialect,
  command: ImportCommand & { now: number },
): Script<Refusable<{ done: true }>> {
  return refusingInvalid(putFamily(dialect, command))
}

function* putFamily(
  { db }: Dialect,
  { tenant, family, workspaces, now }: ImportCommand & { now: number },
): Script<{ done: true }> {
  const numbers = new Map<string, number>()
  for (const segment of family.segments) {
    const known = yield* first(
      db.selectFrom('segments').select(['no', 'conversation_id']).where('id', '=', segment.id),
    )
    if (known && known.conversation_id !== segment.conversation_id) {
      throw new InvalidFile(`the segment ${segment.id} already belongs to another conversation`)
    }
    const parent = segment.parent === null ? null : numbers.get(segment.parent)
    if (parent === undefined) throw new InvalidFile(`the segment ${segment.id} comes before its parent`)
    const { id, conversation_id, cut, created_at } = segment
    const row =
      known ??
      (yield* first(
        db.insertInto('segments').values({ id, conversation_id, parent, cut, created_at }).returning('no'),
      ))
    if (!row) throw new Error('the segment was not stored')
    numbers.set(segment.id, row.no)
  }
  for (const one of family.conversations) {
    const head = numbers.get(one.head)
    if (head === undefined) throw new InvalidFile(`the head of ${one.id} is not in the file`)
    yield* all(
      db.insertInto('conversations').values({
        id: one.id,
        tenant_id: tenant,
        head_segment: head,
        workspace_id: workspaces[one.id] ?? null,
        parent_conversation_id: one.parent_conversation_id,
        parent_event_number: one.parent_event_number,
        settings: one.settings,
        created_at: one.created_at,
        updated_at: one.updated_at,
        deleted_at: timestamp(now + IMPORT_MS),
        deleted_by: IMPORT,
      }),
    )
  }
  return { done: true }
}

/** Appends a batch of sealed events to a segment. The digest computed here must match the one in the file. */
export function importEvents(
  dialect: Dialect,
  command: ImportedEvents,
): Script<Refusable<{ digest: string }>> {
  return refusingInvalid(putEvents(dialect, command))
}

interface ImportedEvents {
  segment: ExportedSegment
  events: readonly ImportedEvent[]
}

function* putEvents(dialect: Dialect, { segment, events }: ImportedEvents): Script<{ digest: string }> {
  const { db } = dialect
  const row = yield* first(
    db.selectFrom('segments').select(['no', 'parent', 'cut']).where('id', '=', segment.id),
  )
  if (!row) throw new InvalidFile(`there is no segment ${segment.id}`)
  let tip = yield* tipOf(db, row)
  const stored: Schema['events'][] = []
  const projected = emptyRows()
  const frames = events.map(({ seq, text }) => frameAt(text, seq, segment))
  const runs = yield* runsOf(dialect, row.no, frames)
  for (const [index, parsed] of frames.entries()) {
    const { seq, frame, blob, text } = events[index] as ImportedEvent
    if (seq !== tip.seq + 1) throw new InvalidFile(`the event ${tip.seq + 1} of ${segment.id} is missing`)
    noteRun(runs, parsed, segment)
    const { digest, bytes } = chainDigest(tip.digest, text)
    stored.push({ segment: row.no, seq, bytes_before: tip.bytes, bytes, frame, blob, digest })
    if (isProjected(parsed.kind)) {
      const { conversation_id: conversationId, stream_id: runId, server_timestamp } = parsed
      const place = { segment: row.no, seq, conversationId, runId, timestamp: server_timestamp }
      projectFrame(projected, place, parsed)
    }
    tip = { seq, bytes: tip.bytes + bytes, digest }
  }
  yield* insertAll('events', stored)
  for (const table of projectionTables) yield* insertAll(table, projected[table])
  yield* replaceAll(
    'runs',
    ['id'],
    [...runs].map(([id, { frames, ended }]) => ({
      id,
      conversation_id: segment.conversation_id,
      segment: row.no,
      epoch: 0,
      frames,
      // A run that was active during the export stays visible up to its last exported frame.
      ended: ended ? ENDED : ABANDONED,
    })),
  )
  return { digest: hex(tip.digest) }
}

interface ImportedRun {
  frames: number
  ended: boolean
}

/** The runs of these frames, as earlier batches have stored them. */
function* runsOf(
  { db, isIn, list }: Dialect,
  segment: number,
  frames: readonly AnyFrame[],
): Script<Map<string, ImportedRun>> {
  const ids = [...new Set(frames.flatMap((frame) => frame.stream_id ?? []))]
  const rows = yield* all(
    db
      .selectFrom('runs as r')
      .selectAll()
      .where(isIn('r.id', list(ids))),
  )
  const other = rows.find((row) => row.segment !== segment)
  if (other) throw new InvalidFile(`the run ${other.id} already belongs to another conversation`)
  return new Map(rows.map(({ id, frames: count, ended }) => [id, { frames: count, ended: ended === ENDED }]))
}

function* tipOf(db: Dialect['db'], segment: { no: number; parent: number | null; cut: number }): Script<Tip> {
  const events = db.selectFrom('events').select(['seq', 'bytes_before', 'bytes', 'digest'])
  const own = yield* first(events.where('segment', '=', segment.no).orderBy('seq', 'desc').limit(1))
  const before =
    own ??
    (segment.parent === null
      ? undefined
      : yield* first(events.where('segment', '=', segment.parent).where('seq', '=', segment.cut)))
  if (before) {
    return { seq: before.seq, bytes: before.bytes_before + before.bytes, digest: before.digest }
  }
  if (segment.parent === null && segment.cut === 0) return genesis
  throw new InvalidFile('the event that the segment was cut at is missing')
}

/** Parses a frame; throws if it doesn't belong at this place. */
function frameAt(text: string, seq: number, segment: ExportedSegment): AnyFrame {
  const frame = JSON.parse(text) as AnyFrame
  const isOf = frame.event_id === seq && frame.conversation_id === segment.conversation_id
  const isRun = frame.stream_id === null || isId('run', frame.stream_id)
  if (isOf && isRun && typeof frame.kind === 'string' && typeof frame.server_timestamp === 'string')
    return frame
  throw new InvalidFile(`the frame of event ${seq} in ${segment.id} does not belong there`)
}

function noteRun(runs: Map<string, ImportedRun>, frame: AnyFrame, segment: ExportedSegment): void {
  if (frame.stream_id === null) return
  const run = runs.get(frame.stream_id) ?? { frames: 0, ended: false }
  if (run.ended || frame.sequence_number !== run.frames + 1) {
    throw new InvalidFile(`the run ${frame.stream_id} in ${segment.id} is not numbered 1, 2, 3 …`)
  }
  run.frames++
  if (isTerminalKind(frame.kind)) run.ended = true
  runs.set(frame.stream_id, run)
}

/** Stores rows of the other tables. An existing row with the same key is kept. */
export function importRows(
  dialect: Dialect,
  rows: readonly ExportedRow[],
): Script<Refusable<{ done: true }>> {
  return refusingInvalid(putRows(dialect, rows))
}

function* putRows(dialect: Dialect, rows: readonly ExportedRow[]): Script<{ done: true }> {
  yield* importResponses(dialect, rows)
  yield* importStates(dialect, rows)
  return { done: true }
}

function* importResponses(dialect: Dialect, rows: readonly ExportedRow[]): Script<void> {
  const { db, isIn, list } = dialect
  const responses = new Map(rowsOf(rows, 'responses').map((row) => [row.id, row]))
  const ends = rowsOf(rows, 'response_ends')
  const segments = yield* segmentNumbers(dialect, [...responses.values(), ...ends])
  const known = yield* all(
    db
      .selectFrom('responses as r')
      .select('r.id')
      .where(isIn('r.id', list([...responses.keys()]))),
  )
  for (const { id } of known) responses.delete(id)
  const added = [...responses.values()]
  yield* insertAll(
    'responses',
    added.map((row) => inOrder('responses', { ...row, segment: segments(row.segment) })),
  )
  const bytes = new Map(
    rowsOf(rows, 'request_blocks').map((row) => [row.hash, Buffer.from(row.bytes, 'base64')]),
  )
  const used = added.flatMap((row) => readLayout(row.request_blocks).blocks)
  const blocks = used.map((hash) => ({ hash, bytes: bytes.get(hash) ?? null }))
  if (!(yield* useBlocks(dialect, blocks))) throw new InvalidFile('a request block is missing')
  yield* insertAll(
    'response_ends',
    ends.map((row) => inOrder('response_ends', { ...row, segment: segments(row.segment) })),
    'skip',
  )
}

function* importStates({ db, isIn, list }: Dialect, rows: readonly ExportedRow[]): Script<void> {
  const states = rowsOf(rows, 'agent_states')
  const owners = new Map(states.map((row) => [row.id, row.thread_id]))
  // States are also looked up by id alone, so none may reuse the id of another run's state.
  const known = yield* all(
    db
      .selectFrom('agent_states as s')
      .select(['s.id', 's.thread_id'])
      .where(isIn('s.id', list([...owners.keys()]))),
  )
  const taken =
    known.find((row) => owners.get(row.id) !== row.thread_id) ??
    states.find((row) => owners.get(row.id) !== row.thread_id)
  if (taken) throw new InvalidFile(`the agent state ${taken.id} already belongs to another run`)
  yield* insertAll(
    'agent_states',
    states.map((row) =>
      inOrder('agent_states', {
        ...row,
        state: Buffer.from(row.state, 'base64'),
        metadata: Buffer.from(row.metadata, 'base64'),
      }),
    ),
    'skip',
  )
  yield* insertAll(
    'agent_values',
    rowsOf(rows, 'agent_values').map((row) => inOrder('agent_values', withBytes(row))),
    'skip',
  )
  yield* insertAll(
    'agent_writes',
    rowsOf(rows, 'agent_writes').map((row) => inOrder('agent_writes', withBytes(row))),
    'skip',
  )
  yield* insertAll(
    'entry_chunks',
    rowsOf(rows, 'entry_chunks').map((row) =>
      inOrder('entry_chunks', { ...row, bytes: Buffer.from(row.bytes, 'base64') }),
    ),
    'skip',
  )
}

type RowOf<T extends ExportedRow['table']> = Extract<ExportedRow, { table: T }>['row']

function rowsOf<T extends ExportedRow['table']>(rows: readonly ExportedRow[], table: T): RowOf<T>[] {
  return rows.flatMap((one) => (one.table === table ? [one.row as RowOf<T>] : []))
}

/** A bulk insert takes the column order from its first row, but rows of a file may differ in order. */
function inOrder<T extends BulkTable>(table: T, row: Selectable<Schema[T]>): Selectable<Schema[T]> {
  const columns = Object.keys(bulkTypes[table]) as (keyof typeof row)[]
  return Object.fromEntries(columns.map((column) => [column, row[column]])) as typeof row
}

function withBytes<T extends { value: string }>(row: T): Omit<T, 'value'> & { value: Uint8Array } {
  return { ...row, value: Buffer.from(row.value, 'base64') }
}

function* segmentNumbers(
  { db, isIn, list }: Dialect,
  rows: readonly { segment: string }[],
): Script<(id: string) => number> {
  const ids = [...new Set(rows.map((row) => row.segment))]
  const found = yield* all(
    db
      .selectFrom('segments as s')
      .select(['s.id', 's.no'])
      .where(isIn('s.id', list(ids))),
  )
  const numbers = new Map(found.map((row) => [row.id, row.no]))
  return (id) => {
    const number = numbers.get(id)
    if (number === undefined) throw new InvalidFile(`a row names the segment ${id}, which is not in the file`)
    return number
  }
}

/** Makes the imported conversations visible. */
export function* finishImport(
  dialect: Dialect,
  { tenant, family, by, now }: ImportCommand & { by: string; now: number },
): Script<{ done: true }> {
  const { db } = dialect
  for (const { id, is_deleted } of family.conversations) {
    yield* all(
      db
        .updateTable('conversations')
        .set(
          is_deleted
            ? { deleted_at: timestamp(now), deleted_by: by, is_expired: 1 }
            : { deleted_at: null, deleted_by: null },
        )
        .where('id', '=', id)
        .where('tenant_id', '=', tenant)
        .where('deleted_by', '=', IMPORT),
    )
    yield* audit(dialect, {
      at: now,
      tenant,
      by,
      action: 'conversation.imported',
      conversationId: id,
      details: {},
    })
  }
  return { done: true }
}
