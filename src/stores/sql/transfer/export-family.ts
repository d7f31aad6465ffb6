import { type Selectable, sql } from 'kysely'
import type { ExportedConversation, ExportedFamily, ExportedSegment } from '../../../core/transfer.ts'
import type { ConversationId, SegmentId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { family as familyMembers } from '../lines/family.ts'
import type { Refusable } from '../refusal.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'

/** Reads a conversation's family for an export. */

/** A snapshot of the family: everything that its living lines reach, without deleted messages. */
export function* exportFamily(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId },
): Script<Refusable<ExportedFamily>> {
  const members = yield* familyMembers(dialect, query)
  if ('refused' in members) return members
  const ids = dialect.list(members.map((member) => member.id))
  const rows = yield* all({
    compile: () =>
      sql<ExportedSegment>`
        with recursive reached(segment, upto) as (
          select c.head_segment, (select max(e.seq) from events e where e.segment = c.head_segment)
            from conversations c where c.deleted_at is null and ${dialect.isIn('c.id', ids)}
          union
          select s.parent, s.cut from reached join segments s on s.no = reached.segment where s.parent is not null
        ), kept(segment, upto) as (select segment, max(upto) from reached group by segment)
        select s.id, s.conversation_id, p.id as parent, s.cut, s.created_at, k.upto, e.digest
        from kept k join segments s on s.no = k.segment
        left join segments p on p.no = s.parent
        join events e on e.segment = s.no and e.seq = k.upto
        order by s.no`.compile(dialect.db),
  })
  const segments = rows.map((row) => ({ ...row, digest: hex(row.digest as unknown as Uint8Array) }))
  const last = new Map(segments.map((segment) => [segment.conversation_id, segment.id]))
  const found = yield* all(
    dialect.db
      .selectFrom('conversations as c')
      .innerJoin('segments as s', 's.no', 'c.head_segment')
      .selectAll('c')
      .select('s.id as head')
      .where(dialect.isIn('c.id', ids))
      .orderBy('c.created_at')
      .orderBy('c.id'),
  )
  const conversations = found.flatMap((row): ExportedConversation[] => {
    const id = row.id as ConversationId
    const head = row.deleted_at === null ? (row.head as SegmentId) : last.get(id)
    // None of its events are on any line.
    if (head === undefined) return []
    const { workspace_id, parent_event_number, settings, created_at, updated_at } = row
    const parent_conversation_id = row.parent_conversation_id as ConversationId | null
    const kept = { workspace_id, parent_conversation_id, parent_event_number, created_at, updated_at }
    const is_deleted = row.deleted_at !== null
    return [{ id, head, ...kept, settings: is_deleted ? '{}' : settings, is_deleted }]
  })
  return { conversations, segments }
}

export function* segmentNumber({ db }: Dialect, id: SegmentId): Script<number | null> {
  return (yield* first(db.selectFrom('segments').select('no').where('id', '=', id)))?.no ?? null
}

/** The blobs, checkpoints and agent threads that a segment's events refer to, up to event `upto`. */
export function* exportNames(
  { db }: Dialect,
  { segment, upto }: { segment: number; upto: number },
): Script<{ blobs: string[]; checkpoints: string[]; threads: string[] }> {
  const blobs = yield* all({
    compile: () =>
      sql<{ key: string }>`select distinct key from (
        select output_ref as key from tool_outputs where segment = ${segment} and seq <= ${upto}
        union all select summary_ref from memories where segment = ${segment} and seq <= ${upto}
        union all select sha256 from attachments where segment = ${segment} and seq <= ${upto}
      ) as named where key is not null order by key`.compile(db),
  })
  const checkpoints = yield* all(
    db
      .selectFrom('checkpoints')
      .select('checkpoint_id')
      .where('segment', '=', segment)
      .where('seq', '<=', upto)
      .orderBy('seq'),
  )
  // Only runs that ended in this segment: no run continues from the states of any other.
  const threads = yield* all(
    db
      .selectFrom('agent_checkpoints as a')
      .innerJoin('agent_states as s', 's.id', 'a.checkpoint_id')
      .select('s.thread_id')
      .distinct()
      .where('a.segment', '=', segment)
      .where('a.seq', '<=', upto)
      .orderBy('s.thread_id'),
  )
  return {
    blobs: blobs.map((row) => row.key),
    checkpoints: checkpoints.map((row) => row.checkpoint_id),
    threads: threads.map((row) => row.thread_id),
  }
}

export function* exportResponses(
  { db }: Dialect,
  query: { segment: number; upto: number; after: string; limit: number },
): Script<{ responses: Selectable<Schema['responses']>[]; ends: Schema['response_ends'][] }> {
  const responses = yield* all(
    db
      .selectFrom('responses')
      .selectAll()
      .where('segment', '=', query.segment)
      .where('seq', '<=', query.upto)
      .where('id', '>', query.after)
      .orderBy('id')
      .limit(query.limit),
  )
  const ends: Schema['response_ends'][] = []
  for (const { id } of responses) {
    ends.push(
      ...(yield* all(
        db.selectFrom('response_ends').selectAll().where('id', '=', id).where('seq', '<=', query.upto),
      )),
    )
  }
  return { responses, ends }
}

export function* exportBlocks(
  { db, isIn, list }: Dialect,
  hashes: readonly string[],
): Script<{ hash: string; bytes: Uint8Array }[]> {
  return yield* all(
    db
      .selectFrom('request_blocks as b')
      .select(['b.hash', 'b.bytes'])
      .where(isIn('b.hash', list(hashes)))
      .orderBy('b.hash'),
  )
}

export interface ThreadRows {
  states: Schema['agent_states'][]
  values: Schema['agent_values'][]
  writes: Schema['agent_writes'][]
  chunks: Schema['entry_chunks'][]
}

export function* exportThread({ db }: Dialect, threadId: string): Script<ThreadRows> {
  const states = yield* all(
    db.selectFrom('agent_states').selectAll().where('thread_id', '=', threadId).orderBy('id'),
  )
  return {
    states,
    values: yield* all(
      db.selectFrom('agent_values').selectAll().where('thread_id', '=', threadId).orderBy('state_id'),
    ),
    writes: yield* all(
      db.selectFrom('agent_writes').selectAll().where('thread_id', '=', threadId).orderBy('state_id'),
    ),
    chunks: yield* all(
      db
        .selectFrom('entry_chunks')
        .selectAll()
        .where('id', 'in', (eb) =>
          eb.selectFrom('agent_states').select('id').where('thread_id', '=', threadId),
        )
        .orderBy('id'),
    ),
  }
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
