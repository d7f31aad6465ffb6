import { type RawBuilder, sql } from 'kysely'
import type { ConversationsQuery, Presence } from '../../../core/ledger.ts'
import { searchable } from '../../../core/projection.ts'
import { chainExpiry } from '../../../core/request-plan.ts'
import type { Conversation, Settings } from '../../../protocol/api/conversations.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, first, type Script } from '../script.ts'
import { withTitles } from './first-messages.ts'

export function* readConversation(
  dialect: Dialect,
  query: { tenant: string; id: string },
): Script<Refusable<Conversation>> {
  const rows = yield* describe(dialect, sql`c.id = ${query.id}`, query.tenant, 1)
  return rows[0] ?? noConversation
}

export function* presenceOf(
  { db }: Dialect,
  { tenant, id }: { tenant: string; id: string },
): Script<Presence> {
  const found = yield* first(
    db
      .selectFrom('conversations')
      .select(['deleted_at', 'is_expired'])
      .where('id', '=', id)
      .where('tenant_id', '=', tenant),
  )
  if (!found || found.is_expired === 1) return 'gone'
  return found.deleted_at === null ? 'present' : 'deleted'
}

/** Includes deleted conversations: their owner may undelete them. */
export function* ownsConversation(
  { db }: Dialect,
  { tenant, id }: { tenant: string; id: string },
): Script<boolean> {
  const found = db
    .selectFrom('conversations')
    .select('id')
    .where('id', '=', id)
    .where('tenant_id', '=', tenant)
  return (yield* all(found)).length > 0
}

export function* listConversations(
  dialect: Dialect,
  query: ConversationsQuery,
): Script<{ items: Conversation[]; more: boolean }> {
  const { after, search, limit, tenant, workspaceId = null } = query
  const later = after
    ? sql`(c.updated_at < ${after.updatedAt} or (c.updated_at = ${after.updatedAt} and c.id < ${after.id}))`
    : sql`1 = 1`
  const found = search === null ? sql`1 = 1` : sql`c.id in (${matching(dialect, search)})`
  const there = workspaceId === null ? sql`1 = 1` : sql`c.workspace_id = ${workspaceId}`
  const rows = yield* describe(dialect, sql`${later} and ${found} and ${there}`, tenant, limit + 1)
  return { items: rows.slice(0, limit), more: rows.length > limit }
}

/**
 * Conversations whose current line has the text in its title or in a message. A segment with a match passes it on to the
 * segments that continue it, so each segment is visited once, however many lines share it and however deep they are.
 */
function matching({ withinBudget }: Dialect, search: string) {
  const pattern = `%${searchable(search).replace(/[\\%_]/g, '\\$&')}%`
  return sql`
    with recursive said(segment, seq) as (
      select m.segment, min(m.seq) from messages m
        where m.search_text like ${pattern} escape '\\' and ${withinBudget} group by m.segment
      union
      select s.no, cast(0 as bigint) from said join segments s on s.parent = said.segment
        where s.cut >= said.seq and ${withinBudget}
    ), named(segment, seq) as (
      select x.segment, x.seq from titles x where x.search_text like ${pattern} escape '\\' and ${withinBudget}
      union
      select s.no, cast(0 as bigint) from named join segments s on s.parent = named.segment
        where s.cut >= named.seq and ${withinBudget} and not exists (
          select 1 from titles x where x.segment = named.segment and x.seq > named.seq and x.seq <= s.cut)
    )
    select id from conversations where head_segment in (select segment from said)
    union
    select c.id from conversations c join named on named.segment = c.head_segment
      where not exists (select 1 from titles x where x.segment = named.segment and x.seq > named.seq)`
}

/** The last title of a segment, up to an event. */
function lastTitle(segment: string, upto: RawBuilder<unknown>) {
  return sql`(select nullif(x.title, '') from titles x where x.segment = ${sql.ref(segment)} and x.seq <= ${upto}
    order by x.seq desc limit 1)`
}

const END = sql`cast(${sql.lit(Number.MAX_SAFE_INTEGER)} as bigint)`

/** Walks each line of `page` up to the first segment with a title: `titled`. */
const titledPage = sql`titled(conversation_id, segment, title) as (
    select id, head_segment, ${lastTitle('head_segment', END)} from page
    union all
    select titled.conversation_id, s.parent, ${lastTitle('s.parent', sql`s.cut`)}
      from titled join segments s on s.no = titled.segment
      where s.parent is not null and titled.title is null
  )`

/** End time of the last response in a segment, up to an event; empty if the provider doesn't store it. */
function lastKept(segment: string, upto: RawBuilder<unknown>) {
  return sql`(select case when r.details like '%"chain":"not_kept"%' then '' else x.ended_at end
    from response_ends x join responses r on r.id = x.id
    where x.segment = ${sql.ref(segment)} and x.seq <= ${upto} and x.details like '%"status":"completed"%'
    order by x.seq desc limit 1)`
}

/** Walks each line of `page` up to the first segment with an answer: `answered`. */
const answeredPage = sql`answered(conversation_id, segment, ended_at) as (
    select id, head_segment, ${lastKept('head_segment', END)} from page
    union all
    select answered.conversation_id, s.parent, ${lastKept('s.parent', sql`s.cut`)}
      from answered join segments s on s.no = answered.segment
      where s.parent is not null and answered.ended_at is null
  )`

/** Walks down once from these roots and finds the title that each segment starts with: `inherited`. */
export function inheritedTitles(conversationIds: RawBuilder<unknown>) {
  return sql`inherited(segment, title) as (
      select no, (select x.title from titles x where 1 = 0) from segments where parent is null and conversation_id in (${conversationIds})
      union all
      select s.no, coalesce(${lastTitle('s.parent', sql`s.cut`)}, inherited.title)
        from inherited join segments s on s.parent = inherited.segment
    )`
}

/** The title at a conversation's head: set in the head segment, or the one that segment started with. */
export const titleOfHead = sql`coalesce(${lastTitle('c.head_segment', END)}, inherited.title)`

interface DescribedRow {
  id: string
  workspace_id: string | null
  parent_conversation_id: string | null
  parent_event_number: number | null
  settings: string
  created_at: string
  updated_at: string
  seq: number
  title: string | null
  answered_at: string | null
  active_session: string | null
  last_approved_at: string | null
  initial_checkpoint: string | null
  is_running: number
  is_asking: number
  queued: number
}

function* describe(
  dialect: Dialect,
  where: ReturnType<typeof sql>,
  tenant: string,
  limit: number,
): Script<Conversation[]> {
  const query = sql<DescribedRow>`
    with recursive page as (
      select c.id, c.head_segment, c.workspace_id, c.parent_conversation_id, c.parent_event_number, c.settings,
        c.created_at, c.updated_at, (select max(seq) from events e where e.segment = c.head_segment) as seq
      from conversations c
      where c.tenant_id = ${tenant} and c.deleted_at is null and ${where}
      order by c.updated_at desc, c.id desc limit ${limit}
    ), ${titledPage}, ${answeredPage}
    select page.*, titled.title, answered.ended_at as answered_at,
      coalesce(
        (select x.next_session from session_closings x where x.conversation_id = page.id
          order by length(x.next_session) desc, x.next_session desc limit 1),
        (select 'session_1' from checkpoints x where x.conversation_id = page.id limit 1)
      ) as active_session,
      (select max(x.created_at) from session_closings x where x.conversation_id = page.id and x.status = 'merged')
        as last_approved_at,
      (select x.checkpoint_id from checkpoints x where x.conversation_id = page.id
        order by x.work_session, x.number limit 1) as initial_checkpoint,
      (select count(*) from queue x where x.conversation_id = page.id and x.state = 'active') as is_running,
      (select count(*) from queue x join asks a on a.run_id = x.run_id
        where x.conversation_id = page.id and x.state = 'active' and a.approved is null) as is_asking,
      (select count(*) from queue x where x.conversation_id = page.id and x.state = 'waiting') as queued
      from page
      left join titled on titled.conversation_id = page.id and titled.title is not null
      left join answered on answered.conversation_id = page.id and answered.ended_at is not null
      order by page.updated_at desc, page.id desc`
  const rows = yield* all({ compile: () => query.compile(dialect.db) })
  const titled = yield* withTitles(dialect, rows)
  return titled.map((row, index) => asConversation(row, rows[index]?.title != null))
}

function asConversation(row: DescribedRow, isTitled: boolean): Conversation {
  const settings = JSON.parse(row.settings) as Settings
  return {
    id: row.id,
    title: row.title,
    is_titled: isTitled,
    workspace_id: row.workspace_id,
    parent:
      row.parent_conversation_id === null || row.parent_event_number === null
        ? null
        : { conversation_id: row.parent_conversation_id, event_number: row.parent_event_number },
    head_event_number: row.seq,
    active_session: row.active_session,
    last_approved_at: row.last_approved_at,
    initial_checkpoint: row.initial_checkpoint,
    agent: settings.agent ?? null,
    agent_context: settings.agent_context ?? null,
    conversation_context: settings.conversation_context ?? null,
    mode: settings.mode ?? 'ask',
    model: settings.model ?? null,
    memory: settings.memory ?? null,
    is_running: row.is_running > 0,
    is_asking: row.is_asking > 0,
    queued: row.queued,
    created_at: row.created_at,
    updated_at: row.updated_at,
    expires_at: row.answered_at ? chainExpiry(row.answered_at) : null,
  }
}
