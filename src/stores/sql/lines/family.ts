import { sql } from 'kysely'
import type { FamilyMember } from '../../../core/ledger.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import { withTitles } from '../conversations/first-messages.ts'
import { inheritedTitles, titleOfHead } from '../conversations/read-conversations.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'
import { findHead } from './line.ts'

interface MemberRow {
  id: string
  title: string | null
  parent_conversation_id: string | null
  parent_event_number: number | null
  seq: number | null
  workspace_id: string | null
  deleted_at: string | null
  created_at: string
  updated_at: string
}

/** Walks up to the root and down to all its forks. Includes a deleted conversation only if a living one descends from it. */
export function* family(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId },
): Script<Refusable<FamilyMember[]>> {
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  if (!head) return noConversation
  const rows = yield* all({
    compile: () =>
      sql<MemberRow>`
        with recursive above(id, parent) as (
          select id, parent_conversation_id from conversations where id = ${query.id}
          union all
          select c.id, c.parent_conversation_id from above join conversations c on c.id = above.parent
        ), member(id) as (
          select id from above where not exists (select 1 from conversations c where c.id = above.parent)
          union all
          select c.id from member join conversations c on c.parent_conversation_id = member.id
        ), needed(id) as (
          select c.id from member join conversations c on c.id = member.id where c.deleted_at is null
          union
          select c.parent_conversation_id from needed join conversations c on c.id = needed.id
            where c.parent_conversation_id is not null
        ), ${inheritedTitles(sql`select id from needed`)}
        select c.id, ${titleOfHead} as title, c.parent_conversation_id, c.parent_event_number, c.workspace_id, c.deleted_at,
          c.created_at, c.updated_at, (select max(seq) from events e where e.segment = c.head_segment) as seq
        from needed join conversations c on c.id = needed.id
        left join inherited on inherited.segment = c.head_segment and c.deleted_at is null
        order by c.created_at, c.id`.compile(dialect.db),
  })
  const living = rows.filter((row) => row.deleted_at === null)
  const titled = new Map((yield* withTitles(dialect, living)).map((row) => [row.id, row]))
  return rows.map((row) => asMember(titled.get(row.id) ?? row))
}

function asMember(row: MemberRow): FamilyMember {
  const isDeleted = row.deleted_at !== null
  return {
    id: row.id,
    title: row.title,
    parent:
      row.parent_conversation_id === null || row.parent_event_number === null
        ? null
        : { conversation_id: row.parent_conversation_id, event_number: row.parent_event_number },
    headEventNumber: isDeleted ? 0 : (row.seq ?? 0),
    workspaceId: row.workspace_id,
    isDeleted,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
