import type { StatsQuery, StatsRows } from '../../../core/stats.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'
import { readConversation } from './read-conversations.ts'

/** More rows than this are not counted. */
const MOST_ROWS = 200_000
const MOST_TITLES = 200

/** What happened in conversations that are not deleted. An event counts in the conversation that it was made in. */
export function* readStats(dialect: Dialect, query: StatsQuery): Script<StatsRows> {
  const { db } = dialect
  const { tenant, conversationId, since, until } = query
  const activity = yield* all(
    db
      .selectFrom('activity as a')
      .innerJoin('conversations as c', 'c.id', 'a.conversation_id')
      .select([
        'a.conversation_id',
        'a.run_id',
        'a.kind',
        'a.name',
        'a.detail',
        'a.status',
        'a.input_tokens',
        'a.output_tokens',
        'a.cached_tokens',
        'a.created_at',
      ])
      .where('c.tenant_id', '=', tenant)
      .where('c.deleted_at', 'is', null)
      .where('a.created_at', '>=', since)
      .where('a.created_at', '<', until)
      .$if(conversationId !== null, (found) => found.where('a.conversation_id', '=', conversationId ?? ''))
      .orderBy('a.created_at')
      .orderBy('a.segment')
      .orderBy('a.seq')
      .limit(MOST_ROWS),
  )
  const edits = yield* all(
    db
      .selectFrom('file_edits as e')
      .innerJoin('conversations as c', 'c.id', 'e.conversation_id')
      .select(['e.conversation_id', 'e.run_id', 'e.path', 'e.created_at'])
      .where('c.tenant_id', '=', tenant)
      .where('c.deleted_at', 'is', null)
      .where('e.created_at', '>=', since)
      .where('e.created_at', '<', until)
      .$if(conversationId !== null, (found) => found.where('e.conversation_id', '=', conversationId ?? ''))
      .limit(MOST_ROWS),
  )
  const requests = yield* all(
    db
      .selectFrom('responses as r')
      .innerJoin('conversations as c', 'c.id', 'r.conversation_id')
      .leftJoin('response_ends as n', 'n.id', 'r.id')
      .select(['r.conversation_id', 'r.run_id', 'r.details', 'r.created_at as began', 'n.ended_at as ended'])
      .where('c.tenant_id', '=', tenant)
      .where('c.deleted_at', 'is', null)
      .where('r.created_at', '>=', since)
      .where('r.created_at', '<', until)
      .$if(conversationId !== null, (found) => found.where('r.conversation_id', '=', conversationId ?? ''))
      .limit(MOST_ROWS),
  )
  const memories = yield* all(
    db
      .selectFrom('memories as m')
      .innerJoin('conversations as c', 'c.id', 'm.conversation_id')
      .select(['m.conversation_id', 'm.seq', 'm.created_at', 'm.details'])
      .where('c.tenant_id', '=', tenant)
      .where('c.deleted_at', 'is', null)
      .where('m.created_at', '>=', since)
      .where('m.created_at', '<', until)
      .$if(conversationId !== null, (found) => found.where('m.conversation_id', '=', conversationId ?? ''))
      .orderBy('m.created_at')
      .limit(1000),
  )
  const titles: StatsRows['titles'] = []
  for (const id of [...new Set(activity.map((row) => row.conversation_id))].slice(0, MOST_TITLES)) {
    const found = yield* readConversation(dialect, { tenant, id })
    if (!('refused' in found)) titles.push({ id, title: found.title })
  }
  const isPartial = [activity, edits, requests].some((rows) => rows.length === MOST_ROWS)
  return {
    activity,
    edits,
    requests: requests.map(({ details, ...row }) => ({ ...row, model: modelIn(details) })),
    memories,
    titles,
    isPartial,
  }
}

function modelIn(details: string): string | null {
  const { model } = JSON.parse(details) as { model?: unknown }
  return typeof model === 'string' ? model : null
}
