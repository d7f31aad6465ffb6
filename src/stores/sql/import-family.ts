import { timestamp } from '../../core/clock.ts'
import { emptyRows, isProjected, projectFrame, projectionTables } from '../../core/projection.ts'
import { chainDigest, genesis, type Tip } from '../../core/seal.ts'
import type {
  ExportedFamily,
  ExportedRow,
  ExportedSegment,
  ImportCommand,
  ImportedEvent,
  ImportedPlaces,
  KnownFamily,
} from '../../core/transfer.ts'
import { isTerminalKind } from '../../protocol/frame-kinds.ts'
import type { AnyFrame } from '../../protocol/frames.ts'
import { type ConversationId, isId } from '../../protocol/ids.ts'
import { audit } from './audit.ts'
import { collectSegment } from './collect.ts'
import type { Dialect } from './dialect.ts'
import { hex, segmentNumber } from './export-family.ts'
import { isRebuilding } from './rebuilding.ts'
import { useBlocks } from './request-blocks.ts'
import { ABANDONED, ENDED, type Schema } from './schema.ts'
import { all, first, insertAll, replaceAll, type Script } from './script.ts'

/** Stores a family that an import brings. */

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

/** Removes what an import that did not come to its end has left, a part at a time. */
export function* abortImport(
  dialect: Dialect,
  { tenant, ids }: { tenant: string; ids: readonly ConversationId[] },
): Script<{ isDone: boolean }> {
  const { db } = dialect
  if (yield* isRebuilding(dialect))
    throw new Error('the projections are being rebuilt; try again when that is done')
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
  // Children first: forks of one another may have come in the same file.
  for (const id of ids) {
    const isLeft = yield* first(db.selectFrom('conversations').select('id').where('id', '=', id))
    if (isLeft) continue
    yield* all(db.deleteFrom('segments').where('conversation_id', '=', id))
  }
  return { isDone: true }
}

/** Creates the family's segments and its conversations, which stay hidden for now. */
export function* beginImport(
  { db }: Dialect,
  { tenant, family, workspaces, now }: ImportCommand & { now: number },
): Script<{ done: true }> {
  const numbers = new Map<string, number>()
  for (const segment of family.segments) {
    const known = yield* first(
      db.selectFrom('segments').select(['no', 'conversation_id']).where('id', '=', segment.id),
    )
    if (known && known.conversation_id !== segment.conversation_id) {
      throw new Error(`the segment ${segment.id} belongs to another conversation here`)
    }
    const parent = segment.parent === null ? null : numbers.get(segment.parent)
    if (parent === undefined) throw new Error(`the segment ${segment.id} comes before its parent`)
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
    if (head === undefined) throw new Error(`the head of ${one.id} is not in the file`)
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

/** Appends a batch to a segment, sealed as it was: the digests made here must be those of the file. */
export function* importEvents(
  { db }: Dialect,
  { segment, events }: { segment: ExportedSegment; events: readonly ImportedEvent[] },
): Script<{ digest: string }> {
  const row = yield* first(
    db.selectFrom('segments').select(['no', 'parent', 'cut']).where('id', '=', segment.id),
  )
  if (!row) throw new Error(`there is no segment ${segment.id}`)
  let tip = yield* tipOf(db, row)
  const stored: Schema['events'][] = []
  const projected = emptyRows()
  const runs = yield* runsIn(db, row.no)
  for (const { seq, frame, blob, text } of events) {
    if (seq !== tip.seq + 1) throw new Error(`the event ${tip.seq + 1} of ${segment.id} is missing`)
    const parsed = frameAt(text, seq, segment)
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
  const changed = [...runs].filter(([, run]) => run.isChanged)
  for (const [id] of changed) {
    const other = yield* first(db.selectFrom('runs').select(['id', 'segment']).where('id', '=', id))
    if (other && other.segment !== row.no)
      throw new Error(`the run ${id} belongs to another conversation here`)
  }
  yield* replaceAll(
    'runs',
    ['id'],
    changed.map(([id, { frames, ended }]) => ({
      id,
      conversation_id: segment.conversation_id,
      segment: row.no,
      epoch: 0,
      frames,
      // A run that was under way is shown as far as it came.
      ended: ended ? ENDED : ABANDONED,
    })),
  )
  return { digest: hex(tip.digest) }
}

interface ImportedRun {
  frames: number
  ended: boolean
  isChanged: boolean
}

function* runsIn(db: Dialect['db'], segment: number): Script<Map<string, ImportedRun>> {
  const rows = yield* all(db.selectFrom('runs').selectAll().where('segment', '=', segment))
  return new Map(
    rows.map(({ id, frames, ended }) => [id, { frames, ended: ended === ENDED, isChanged: false }]),
  )
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
  throw new Error('the event that the segment was cut at is missing')
}

/** The frame, if it belongs at this place. */
function frameAt(text: string, seq: number, segment: ExportedSegment): AnyFrame {
  const frame = JSON.parse(text) as AnyFrame
  const isOf = frame.event_id === seq && frame.conversation_id === segment.conversation_id
  const isRun = frame.stream_id === null || isId('run', frame.stream_id)
  if (isOf && isRun && typeof frame.kind === 'string' && typeof frame.server_timestamp === 'string')
    return frame
  throw new Error(`the event ${seq} of ${segment.id} is not a frame of that place`)
}

function noteRun(runs: Map<string, ImportedRun>, frame: AnyFrame, segment: ExportedSegment): void {
  if (frame.stream_id === null) return
  const run = runs.get(frame.stream_id) ?? { frames: 0, ended: false, isChanged: false }
  if (run.ended || frame.sequence_number !== run.frames + 1) {
    throw new Error(`the run ${frame.stream_id} in ${segment.id} is not numbered 1, 2, 3 …`)
  }
  run.frames++
  run.isChanged = true
  if (isTerminalKind(frame.kind)) run.ended = true
  runs.set(frame.stream_id, run)
}

/** Rows that refer to each other only within the file; what is here under the same key stays as it is. */
export function* importRows(
  dialect: Dialect,
  { family, rows }: { family: ImportedPlaces; rows: readonly ExportedRow[] },
): Script<{ done: true }> {
  const { db } = dialect
  const runs = new Set<string>(family.runs)
  const numbers = new Map<string, number>()
  for (const { id } of family.segments) {
    const found = yield* segmentNumber(dialect, id)
    if (found !== null) numbers.set(id, found)
  }
  const segmentOf = (id: string) => {
    const found = numbers.get(id)
    if (found === undefined) throw new Error(`a row names the segment ${id}, which is not in the file`)
    return found
  }
  const assertRun = (id: string) => {
    if (!runs.has(id)) throw new Error(`a row names the run ${id}, which is not in the file`)
  }
  const blocks = new Map(
    rows.flatMap((one) =>
      one.table === 'request_blocks' ? [[one.row.hash, Buffer.from(one.row.bytes, 'base64')] as const] : [],
    ),
  )
  for (const one of rows) {
    switch (one.table) {
      case 'request_blocks':
        break
      case 'responses': {
        assertRun(one.row.run_id)
        const values = { ...one.row, segment: segmentOf(one.row.segment) }
        const added = yield* all(
          db
            .insertInto('responses')
            .values(values)
            .onConflict((conflict) => conflict.doNothing())
            .returning('id'),
        )
        const hashes = JSON.parse(one.row.request_blocks ?? '[]') as string[]
        const used = hashes.map((hash) => ({ hash, bytes: blocks.get(hash) ?? null }))
        if (added.length > 0 && !(yield* useBlocks(dialect, used))) {
          throw new Error(`a block of the request ${one.row.id} is missing`)
        }
        break
      }
      case 'response_ends':
        yield* all(
          db
            .insertInto('response_ends')
            .values({ ...one.row, segment: segmentOf(one.row.segment) })
            .onConflict((conflict) => conflict.doNothing()),
        )
        break
      case 'agent_states': {
        assertRun(one.row.thread_id)
        // States are found by their id alone too: none may take another's.
        const other = yield* first(
          db
            .selectFrom('agent_states')
            .select('thread_id')
            .where('id', '=', one.row.id)
            .where('thread_id', '!=', one.row.thread_id),
        )
        if (other) throw new Error(`the agent state ${one.row.id} belongs to another run here`)
        const { state, metadata, ...rest } = one.row
        yield* all(
          db
            .insertInto('agent_states')
            .values({
              ...rest,
              state: Buffer.from(state, 'base64'),
              metadata: Buffer.from(metadata, 'base64'),
            })
            .onConflict((conflict) => conflict.doNothing()),
        )
        break
      }
      case 'agent_values':
      case 'agent_writes': {
        assertRun(one.row.thread_id)
        const values = { ...one.row, value: Buffer.from(one.row.value, 'base64') }
        yield* all(
          db
            .insertInto(one.table)
            .values(values as never)
            .onConflict((conflict) => conflict.doNothing()),
        )
        break
      }
      case 'entry_chunks': {
        const { id, parent, bytes } = one.row
        const state = yield* first(
          db.selectFrom('agent_states').select('thread_id').where('id', '=', id).limit(1),
        )
        assertRun(state?.thread_id ?? '')
        yield* all(
          db
            .insertInto('entry_chunks')
            .values({ id, parent, bytes: Buffer.from(bytes, 'base64') })
            .onConflict((conflict) => conflict.doNothing()),
        )
      }
    }
  }
  return { done: true }
}

/** From here on everybody sees it. */
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
