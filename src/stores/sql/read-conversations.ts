import { type RawBuilder, sql } from 'kysely'
import type { ConversationsQuery } from '../../core/ledger.ts'
import { searchable } from '../../core/projection.ts'
import type { Conversation, Settings } from '../../protocol/api/conversations.ts'
import type { Dialect } from './dialect.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, type Script } from './script.ts'

export function* readConversation(
  dialect: Dialect,
  query: { tenant: string; id: string },
): Script<Refusable<Conversation>> {
  const rows = yield* describe(dialect, sql`c.id = ${query.id}`, query.tenant, 1)
  return rows[0] ?? noConversation
}

export function* listConversations(
  dialect: Dialect,
  query: ConversationsQuery,
): Script<{ items: Conversation[]; more: boolean }> {
  const { after, search, limit, tenant } = query
  const later = after
    ? sql`(c.updated_at < ${after.updatedAt} or (c.updated_at = ${after.updatedAt} and c.id < ${after.id}))`
    : sql`1 = 1`
  const found = search === null ? sql`1 = 1` : sql`c.id in (${matching(tenant, search)})`
  const rows = yield* describe(dialect, sql`${later} and ${found}`, tenant, limit + 1)
  return { items: rows.slice(0, limit), more: rows.length > limit }
}

/** Conversations with the text in their title or in a message, of what their line shows now. */
function matching(tenant: string, search: string) {
  const pattern = `%${searchable(search).replace(/[\\%_]/g, '\\$&')}%`
  return sql`
    with recursive ${titledLines(sql`conversations where tenant_id = ${tenant} and deleted_at is null`)}
    select conversation_id from titled where nth = 1 and search_text like ${pattern} escape '\\'
    union
    select line.conversation_id from line join messages m on m.segment = line.segment and m.seq <= line.upto
      where m.search_text like ${pattern} escape '\\'`
}

/** The lines of the conversations that `heads` selects (id, head segment), each with its last title: `line` and `titled`. */
export function titledLines(heads: RawBuilder<unknown>) {
  return sql`line(conversation_id, segment, upto) as (
      select id, head_segment, cast(${Number.MAX_SAFE_INTEGER} as bigint) from ${heads}
      union all
      select line.conversation_id, s.parent, s.cut from line join segments s on s.no = line.segment
        where s.parent is not null
    ), titled as (
      select line.conversation_id, x.title, x.search_text,
        row_number() over (partition by line.conversation_id order by x.seq desc) as nth
      from line join titles x on x.segment = line.segment and x.seq <= line.upto
    )`
}

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
  active_session: string | null
  last_approved_at: string | null
  is_running: number
  is_asking: number
  queued: number
}

/** The title is the last one on the line, so the rows of a page are followed to their roots. */
function* describe(
  { db }: Dialect,
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
    ), ${titledLines(sql`page`)}
    select page.*, titled.title,
      coalesce(
        (select x.next_session from session_closings x where x.conversation_id = page.id
          order by length(x.next_session) desc, x.next_session desc limit 1),
        (select 'session_1' from checkpoints x where x.conversation_id = page.id limit 1)
      ) as active_session,
      (select max(x.created_at) from session_closings x where x.conversation_id = page.id and x.status = 'merged')
        as last_approved_at,
      (select count(*) from queue x where x.conversation_id = page.id and x.state = 'active') as is_running,
      (select count(*) from queue x join asks a on a.run_id = x.run_id
        where x.conversation_id = page.id and x.state = 'active' and a.approved is null) as is_asking,
      (select count(*) from queue x where x.conversation_id = page.id and x.state = 'waiting') as queued
      from page
      left join titled on titled.conversation_id = page.id and titled.nth = 1
      order by page.updated_at desc, page.id desc`
  const rows = yield* all({ compile: () => query.compile(db) })
  return rows.map(asConversation)
}

function asConversation(row: DescribedRow): Conversation {
  const settings = JSON.parse(row.settings) as Settings
  return {
    id: row.id,
    title: row.title,
    workspace_id: row.workspace_id,
    parent:
      row.parent_conversation_id === null || row.parent_event_number === null
        ? null
        : { conversation_id: row.parent_conversation_id, event_number: row.parent_event_number },
    head_event_number: row.seq,
    active_session: row.active_session,
    last_approved_at: row.last_approved_at,
    agent_context: settings.agent_context ?? null,
    conversation_context: settings.conversation_context ?? null,
    memory: settings.memory ?? null,
    is_running: row.is_running > 0,
    is_asking: row.is_asking > 0,
    queued: row.queued,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
