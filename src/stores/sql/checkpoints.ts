import { sql } from 'kysely'
import type { WorkQuery, WorkRows } from '../../core/work-sessions.ts'
import { MAIN } from '../../core/work-sessions.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import type { Dialect } from './dialect.ts'
import { findHead, lineOf } from './line.ts'
import { noConversation, type Refusable, type Refusal } from './refusal.ts'
import { all, first, type Script } from './script.ts'

/** Reads of checkpoints and work sessions. They belong to the conversation, whatever has been cut from its line since. */

interface Asked {
  tenant: string
  id: ConversationId
}

export function* workRows(dialect: Dialect, { tenant, id }: Asked): Script<Refusable<WorkRows>> {
  const { db } = dialect
  const conversation = yield* first(
    db
      .selectFrom('conversations')
      .select('workspace_id')
      .where('id', '=', id)
      .where('tenant_id', '=', tenant)
      .where('deleted_at', 'is', null),
  )
  if (!conversation) return noConversation
  const tips = yield* all({
    compile: () =>
      sql<WorkRows['tips'][number]>`
        select work_session as "workSession", checkpoint_id as "checkpointId", count, number, first_at as "firstAt" from (
          select work_session, checkpoint_id, number,
            count(*) over (partition by work_session) as count,
            min(created_at) over (partition by work_session) as first_at,
            row_number() over (partition by work_session order by number desc, segment desc, seq desc) as nth
          from checkpoints where conversation_id = ${id}
        ) as ranked where nth = 1`.compile(db),
  })
  const closings = yield* all(
    db
      .selectFrom('session_closings')
      .select([
        'work_session as workSession',
        'status',
        'checkpoint_id as checkpointId',
        'next_session as nextSession',
        'created_at as at',
      ])
      .where('conversation_id', '=', id),
  )
  const hasMain = tips.some((tip) => tip.workSession === MAIN)
  const inherited = hasMain ? { tip: null, main: null } : yield* inheritedBy(dialect, { tenant, id })
  return { workspaceId: conversation.workspace_id, tips, closings, inherited }
}

/** The last checkpoints on the line before the conversation's own part of it. */
function* inheritedBy(dialect: Dialect, { tenant, id }: Asked): Script<WorkRows['inherited']> {
  const inherited: WorkRows['inherited'] = { tip: null, main: null }
  const head = yield* findHead(dialect, tenant, id, 'read')
  if (!head) return inherited
  for (const part of (yield* lineOf(dialect, head.head_segment, head.seq)).toReversed()) {
    if (part.conversationId === id) continue
    const last = (only: string | null) =>
      first(
        dialect.db
          .selectFrom('checkpoints')
          .select('checkpoint_id')
          .where('segment', '=', part.segment)
          .where('seq', '<=', part.to)
          .$if(only !== null, (query) => query.where('work_session', '=', only ?? ''))
          .orderBy('seq', 'desc')
          .limit(1),
      )
    inherited.tip ??= (yield* last(null))?.checkpoint_id ?? null
    inherited.main ??= (yield* last(MAIN))?.checkpoint_id ?? null
    if (inherited.main !== null) break
  }
  return inherited
}

/** Where rows of the conversation stand: in its own segments, on its line or not, and in those that it inherits. */
function placesOf(table: 'checkpoints' | 'file_edits', id: string) {
  return sql`
    with recursive line(segment, upto) as (
      select head_segment, cast(${Number.MAX_SAFE_INTEGER} as bigint) from conversations where id = ${id}
      union all
      select s.parent, s.cut from line join segments s on s.no = line.segment where s.parent is not null
    ), place(segment, seq) as (
      select segment, seq from ${sql.table(table)} where conversation_id = ${id}
      union
      select t.segment, t.seq from line join ${sql.table(table)} t on t.segment = line.segment and t.seq <= line.upto
    )`
}

/** Behind the row at which the page before ended, the last first. */
function before(cursor: string | null) {
  if (cursor === null) return sql<boolean>`1 = 1`
  const [at = '', segment = '0', seq = '0'] = cursor.split('~')
  return sql<boolean>`(x.created_at < ${at} or (x.created_at = ${at} and (x.segment < ${Number(segment)}
    or (x.segment = ${Number(segment)} and x.seq < ${Number(seq)}))))`
}

export interface Listed<T> {
  items: T[]
  next: string | null
}

export interface ListedCheckpoint {
  checkpoint_id: string
  work_session: string
  label: string
  files: number
  changed: number
  excluded: number
  conversation_id: string
  message_id: string | null
  created_at: string
}

interface Placed {
  segment: number
  seq: number
  created_at: string
}

export function* listCheckpoints(
  dialect: Dialect,
  query: WorkQuery,
): Script<Refusable<Listed<ListedCheckpoint>>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const rows = yield* all({
    compile: () =>
      sql<ListedCheckpoint & Placed>`${placesOf('checkpoints', query.conversationId)}
        select x.checkpoint_id, x.work_session, x.label, x.files, x.changed, x.excluded, x.conversation_id,
          (select m.message_id from messages m where m.run_id = x.run_id and m.role = 'user'
            and m.checkpoint_id = x.checkpoint_id limit 1) as message_id,
          x.created_at, x.segment, x.seq
        from place join checkpoints x on x.segment = place.segment and x.seq = place.seq
        where ${before(query.cursor)}
        order by x.created_at desc, x.segment desc, x.seq desc
        limit ${query.limit + 1}`.compile(dialect.db),
  })
  return paged(rows, query.limit)
}

export interface ListedEdit {
  path: string
  change: string
  additions: number
  deletions: number
  diff: Uint8Array | null
  tool_call_id: string | null
  message_id: string | null
  checkpoint_id: string | null
  event_number: number
  created_at: string
}

export function* listEdits(dialect: Dialect, query: WorkQuery): Script<Refusable<Listed<ListedEdit>>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const isPath = query.path == null ? sql`1 = 1` : sql`x.path = ${query.path}`
  const rows = yield* all({
    compile: () =>
      sql<ListedEdit & Placed>`${placesOf('file_edits', query.conversationId)}
        select x.path, x.change, x.additions, x.deletions, x.diff, x.tool_call_id, x.seq as event_number,
          (select m.message_id from messages m where m.run_id = x.run_id and m.role = 'user' limit 1) as message_id,
          (select m.checkpoint_id from messages m where m.run_id = x.run_id and m.role = 'user' limit 1)
            as checkpoint_id,
          x.created_at, x.segment, x.seq
        from place join file_edits x on x.segment = place.segment and x.seq = place.seq
        where ${before(query.cursor)} and ${isPath}
        order by x.created_at desc, x.segment desc, x.seq desc
        limit ${query.limit + 1}`.compile(dialect.db),
  })
  return paged(rows, query.limit)
}

function paged<T extends Placed>(rows: readonly T[], limit: number): Listed<Omit<T, 'segment' | 'seq'>> {
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    items: rows.slice(0, limit).map(({ segment: _segment, seq: _seq, ...row }) => row),
    next: last ? `${last.created_at}~${last.segment}~${last.seq}` : null,
  }
}

const noCheckpoint = {
  refused: 'checkpoint_not_found',
  why: 'This conversation has no such checkpoint.',
} as const satisfies Refusal

export function* findCheckpoint(
  dialect: Dialect,
  query: Asked & { checkpointId: string },
): Script<Refusable<{ checkpointId: string }>> {
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  if (!head) return noConversation
  const found = yield* all({
    compile: () =>
      sql<{ checkpoint_id: string }>`${placesOf('checkpoints', query.id)}
        select distinct x.checkpoint_id
        from place join checkpoints x on x.segment = place.segment and x.seq = place.seq
        where x.checkpoint_id like ${`${query.checkpointId}%`}
        limit 2`.compile(dialect.db),
  })
  if (found.length > 1) return { ...noCheckpoint, why: 'More than one checkpoint begins like this.' }
  return found[0] ? { checkpointId: found[0].checkpoint_id } : noCheckpoint
}

export function* conversationsWithWork(
  { db }: Dialect,
  workspaceId: string,
): Script<{ tenant: string; id: ConversationId }[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select(['c.tenant_id as tenant', 'c.id'])
      .where('c.workspace_id', '=', workspaceId)
      .where('c.deleted_at', 'is', null)
      .where((eb) =>
        eb.exists(
          eb.selectFrom('checkpoints as x').select('x.seq').whereRef('x.conversation_id', '=', 'c.id'),
        ),
      )
      .orderBy('c.id'),
  )
  return rows.map(({ tenant, id }) => ({ tenant, id: id as ConversationId }))
}

/** Of every segment that a conversation which still exists has, or that one of those goes back to. */
export function* reachableCheckpoints({ db }: Dialect, _all: null): Script<string[]> {
  const rows = yield* all({
    compile: () =>
      sql<{ checkpoint_id: string }>`
        with recursive reached(segment) as (
          select s.no from segments s join conversations c on c.id = s.conversation_id
            where c.deleted_at is null
          union
          select s.parent from reached join segments s on s.no = reached.segment where s.parent is not null
        )
        select distinct x.checkpoint_id from checkpoints x join reached on reached.segment = x.segment
        order by x.checkpoint_id`.compile(db),
  })
  return rows.map((row) => row.checkpoint_id)
}

export function* deletedAmong({ db, isIn, list }: Dialect, ids: readonly string[]): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select('c.id')
      .where('c.deleted_at', 'is not', null)
      .where(isIn('c.id', list(ids))),
  )
  return rows.map((row) => row.id)
}
