import { type RawBuilder, sql } from 'kysely'
import type { LinePart } from '../../../core/line.ts'
import type { WorkQuery, WorkRows } from '../../../core/work-sessions.ts'
import { MAIN } from '../../../core/work-sessions.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { family } from '../lines/family.ts'
import { findHead, lineOf } from '../lines/line.ts'
import { noConversation, type Refusable, type Refusal } from '../refusal.ts'
import { all, first, type Script } from '../script.ts'
import { isRebuilding, rebuilding } from '../upkeep/rebuilding.ts'

/** Reads checkpoints and work sessions. They belong to the conversation, even if its line was cut since. */

interface ConversationQuery {
  tenant: string
  id: ConversationId
}

export function* workspaceOf(
  { db }: Dialect,
  { tenant, id }: ConversationQuery,
): Script<Refusable<{ workspaceId: string | null }>> {
  const conversation = yield* first(
    db
      .selectFrom('conversations')
      .select('workspace_id')
      .where('id', '=', id)
      .where('tenant_id', '=', tenant)
      .where('deleted_at', 'is', null),
  )
  return conversation ? { workspaceId: conversation.workspace_id } : noConversation
}

export function* knownAmong({ db, isIn, list }: Dialect, ids: readonly string[]): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select('c.id')
      .where(isIn('c.id', list(ids))),
  )
  return rows.map((row) => row.id)
}

export function* workRows(
  dialect: Dialect,
  query: ConversationQuery & { isCounted: boolean },
): Script<Refusable<WorkRows>> {
  const { tenant, id } = query
  if (yield* isRebuilding(dialect)) return rebuilding
  const conversation = yield* workspaceOf(dialect, query)
  if ('refused' in conversation) return conversation
  const tips = yield* tipsOf(dialect, id, query.isCounted)
  const closings = yield* closingsOf(dialect, sql`conversation_id = ${id}`)
  const head = tips.some((tip) => tip.workSession === MAIN)
    ? undefined
    : yield* findHead(dialect, tenant, id, 'read')
  const line = head ? yield* lineOf(dialect, head.head_segment, head.seq) : []
  const inherited = yield* inheritedBy(dialect, id, line)
  return { ...conversation, tips, closings, inherited }
}

/** Like `workRows`, but limited to what this line of the conversation records. */
export function* workRowsOn(
  dialect: Dialect,
  id: string,
  workspaceId: string | null,
  line: readonly LinePart[],
): Script<WorkRows> {
  const own = line.filter((part) => part.conversationId === id).map(({ segment, to }) => [segment, to])
  const places = dialect.items(JSON.stringify(own), ['place', 'upto'])
  const rows = yield* ownRows(
    dialect,
    sql`exists (select 1 from ${places} as p where p.place = segment and seq <= p.upto)`,
  )
  const hasMain = rows.tips.some((tip) => tip.workSession === MAIN)
  return { workspaceId, ...rows, inherited: yield* inheritedBy(dialect, id, hasMain ? [] : line) }
}

/** The last checkpoint of each work session. Uses the index, so it reads a few rows however many checkpoints exist. */
function* tipsOf(dialect: Dialect, id: string, isCounted: boolean): Script<WorkRows['tips']> {
  const { db } = dialect
  const names = yield* all({
    compile: () =>
      sql<{ name: string }>`
        with recursive names(name) as (
          select min(work_session) from checkpoints where conversation_id = ${id}
          union all
          select (select min(x.work_session) from checkpoints x
            where x.conversation_id = ${id} and x.work_session > names.name) from names where names.name is not null
        )
        select name from names where name is not null`.compile(db),
  })
  const tips: WorkRows['tips'] = []
  for (const { name } of names) {
    const own = db
      .selectFrom('checkpoints')
      .where('conversation_id', '=', id)
      .where('work_session', '=', name)
    const last = yield* first(
      own
        .select(['checkpoint_id', 'number'])
        .orderBy('number', 'desc')
        .orderBy('segment', 'desc')
        .orderBy('seq', 'desc')
        .limit(1),
    )
    const oldest = yield* first(own.select(['created_at', 'checkpoint_id']).orderBy('number').limit(1))
    const counted = isCounted
      ? yield* first(own.select(sql<number>`count(distinct checkpoint_id)`.as('count')))
      : undefined
    tips.push({
      workSession: name,
      checkpointId: last?.checkpoint_id ?? '',
      number: last?.number ?? 0,
      count: counted?.count ?? 0,
      firstAt: oldest?.created_at ?? '',
      firstId: oldest?.checkpoint_id ?? '',
    })
  }
  return tips
}

/** Counts a checkpoint once, even if a deletion caused it to be restated. */
function* ownRows({ db }: Dialect, where: RawBuilder<unknown>): Script<Pick<WorkRows, 'tips' | 'closings'>> {
  const tips = yield* all({
    compile: () =>
      sql<WorkRows['tips'][number]>`
        select work_session as "workSession", checkpoint_id as "checkpointId", count, number, first_at as "firstAt",
          first_id as "firstId" from (
          select work_session, checkpoint_id, number,
            count(*) over (partition by work_session) as count,
            min(first_at) over (partition by work_session) as first_at,
            first_value(checkpoint_id) over (partition by work_session order by number) as first_id,
            row_number() over (partition by work_session order by number desc, last_segment desc, last_seq desc) as nth
          from (
            select work_session, checkpoint_id, max(number) as number, min(created_at) as first_at,
              max(segment) as last_segment, max(seq) as last_seq
            from checkpoints where ${where} group by work_session, checkpoint_id
          ) as once
        ) as ranked where nth = 1`.compile(db),
  })
  return { tips, closings: yield* closingsOf({ db }, where) }
}

function* closingsOf({ db }: Pick<Dialect, 'db'>, where: RawBuilder<unknown>): Script<WorkRows['closings']> {
  return yield* all({
    compile: () =>
      sql<WorkRows['closings'][number]>`
        select work_session as "workSession", status, checkpoint_id as "checkpointId", next_session as "nextSession",
          created_at as "at"
        from session_closings where ${where}`.compile(db),
  })
}

/** The last checkpoints on the line before the conversation's own part of it. */
function* inheritedBy(
  dialect: Dialect,
  id: string,
  line: readonly LinePart[],
): Script<WorkRows['inherited']> {
  const inherited: WorkRows['inherited'] = { tip: null, main: null }
  for (const part of line.toReversed()) {
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

/** The places of a conversation's rows: on its line, and on left lines that haven't expired. */
function placesOf(table: 'checkpoints' | 'file_edits', id: string) {
  return sql`
    with recursive line(segment, upto) as (
      select head_segment, cast(${Number.MAX_SAFE_INTEGER} as bigint) from conversations where id = ${id}
      union
      select segment, seq from left_lines where conversation_id = ${id} and is_expired = 0
      union
      select s.parent, s.cut from line join segments s on s.no = line.segment where s.parent is not null
    ), place(segment, seq) as (
      select distinct t.segment, t.seq
        from line join ${sql.table(table)} t on t.segment = line.segment and t.seq <= line.upto
    )`
}

/** Matches rows older than the last row of the previous page. */
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
      sql<ListedCheckpoint & Placed>`${placesOf('checkpoints', query.conversationId)}, once(segment, seq) as (
        select segment, seq from (
          select y.segment, y.seq,
            row_number() over (partition by y.checkpoint_id order by y.number, y.segment, y.seq) as nth
          from place p join checkpoints y on y.segment = p.segment and y.seq = p.seq
        ) as ranked where nth = 1
      )
        select x.checkpoint_id, x.work_session, x.label, x.files, x.changed, x.excluded, x.conversation_id,
          (select m.message_id from messages m where m.run_id = x.run_id and m.role = 'user'
            and m.checkpoint_id = x.checkpoint_id limit 1) as message_id,
          x.created_at, x.segment, x.seq
        from once join checkpoints x on x.segment = once.segment and x.seq = once.seq
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
  previous_checkpoint: string | null
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
          x.previous_checkpoint, x.created_at, x.segment, x.seq
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
  query: ConversationQuery & { checkpointId: string },
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
  const own = found.length > 0 ? found : yield* ofRelatives(dialect, query)
  const known = own.length > 0 ? own : yield* approvedInWorkspace(dialect, query)
  if (known.length > 1) return { ...noCheckpoint, why: 'Several checkpoints match. Give a longer id.' }
  return known[0] ? { checkpointId: known[0].checkpoint_id } : noCheckpoint
}

/** Searches the approvals of the conversation's workspace: a reset returns to one of them (W6). */
function* approvedInWorkspace(
  { db }: Dialect,
  query: ConversationQuery & { checkpointId: string },
): Script<{ checkpoint_id: string }[]> {
  return yield* all(
    db
      .selectFrom('session_closings as s')
      .innerJoin('conversations as c', 'c.id', 's.conversation_id')
      .innerJoin('conversations as own', 'own.workspace_id', 'c.workspace_id')
      .select('s.checkpoint_id')
      .distinct()
      .where('own.id', '=', query.id)
      .where('s.status', '=', 'merged')
      .where('s.checkpoint_id', 'like', `${query.checkpointId}%`)
      .limit(2),
  )
}

/** Searches conversations of the same family, so that changes from a fork's own working copy can be adopted. */
function* ofRelatives(
  dialect: Dialect,
  query: ConversationQuery & { checkpointId: string },
): Script<{ checkpoint_id: string }[]> {
  const relatives = yield* family(dialect, query)
  if ('refused' in relatives) return []
  const { db, isIn, list } = dialect
  const ids = relatives.flatMap(({ id, isDeleted }) => (isDeleted ? [] : id))
  return yield* all(
    db
      .selectFrom('checkpoints as x')
      .select('x.checkpoint_id')
      .distinct()
      .where('x.checkpoint_id', 'like', `${query.checkpointId}%`)
      .where(isIn('x.conversation_id', list(ids)))
      .limit(2),
  )
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

/**
 * Null during a rebuild, because the answer isn't known yet. The collector removes unreachable checkpoints together with their
 * events, so every remaining row is reachable.
 */
export function* reachableCheckpoints(dialect: Dialect, _all: null): Script<string[] | null> {
  if (yield* isRebuilding(dialect)) return null
  const rows = yield* all(dialect.db.selectFrom('checkpoints').select('checkpoint_id').distinct())
  return rows.map((row) => row.checkpoint_id)
}

/** Returns those workspaces that an unexpired conversation still uses. */
export function* workspacesInUse({ db, isIn, list }: Dialect, ids: readonly string[]): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select('c.workspace_id')
      .distinct()
      .where('c.is_expired', '=', 0)
      .where(isIn('c.workspace_id', list(ids))),
  )
  return rows.flatMap((row) => row.workspace_id ?? [])
}

/** Workspaces of copies that conversations use, except deleted ones. */
export function* copiesInUse({ db }: Dialect, workspaceId: string): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select('c.workspace_id')
      .distinct()
      .where('c.deleted_at', 'is', null)
      .where(sql<boolean>`substr(c.workspace_id, 1, ${workspaceId.length + 6}) = ${`${workspaceId}.conv_`}`),
  )
  return rows.flatMap((row) => row.workspace_id ?? [])
}

export function* expiredAmong({ db, isIn, list }: Dialect, ids: readonly string[]): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('conversations as c')
      .select('c.id')
      .where('c.is_expired', '=', 1)
      .where(isIn('c.id', list(ids))),
  )
  return rows.map((row) => row.id)
}
