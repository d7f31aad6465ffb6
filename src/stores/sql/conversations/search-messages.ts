import { sql } from 'kysely'
import { searchable } from '../../../core/projection.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

export interface FoundMessage {
  conversationId: string
  seq: number
  messageId: string
  role: 'user' | 'assistant'
  createdAt: string
  frame: string
  blob: string | null
}

interface HitRow {
  segment: number
  seq: number
  message_id: string
  role: 'user' | 'assistant'
  conversation_id: string
  created_at: string
}

const BATCH = 200
const MAX_BATCHES = 20

/**
 * The newest messages on current lines that contain the text, each once, however many forks share it. A message is found in
 * the conversation that it was sent in, or, if that was deleted or has left it, in a fork that still has it.
 */
export function* searchMessages(
  dialect: Dialect,
  query: { tenant: string; search: string; conversationId: string | null; limit: number },
): Script<{ items: FoundMessage[]; more: boolean }> {
  const found: ReachedHit[] = []
  let hits: HitRow[] = []
  for (let batch = 0; batch < MAX_BATCHES && found.length <= query.limit; batch++) {
    hits = yield* all(hitsOf(dialect, query, batch * BATCH))
    found.push(...(yield* reachedHits(dialect, query, hits)))
    if (hits.length < BATCH) break
  }
  // After the last batch there may be more, further back.
  const more = found.length > query.limit || hits.length === BATCH
  return { items: yield* withFrames(dialect, found.slice(0, query.limit)), more }
}

function hitsOf(
  { db, withinBudget }: Dialect,
  query: { tenant: string; search: string; conversationId: string | null },
  offset: number,
) {
  const pattern = `%${searchable(query.search).replace(/[\\%_]/g, '\\$&')}%`
  return {
    compile: () =>
      sql<HitRow>`select m.segment, m.seq, m.message_id, m.role, m.conversation_id, m.created_at
        from messages m join conversations c on c.id = m.conversation_id
        where c.tenant_id = ${query.tenant} and ${onLine(query.conversationId)} and m.search_text like ${pattern} escape '\\' and ${withinBudget}
        order by m.created_at desc, m.segment desc, m.seq desc limit ${BATCH} offset ${offset}`.compile(db),
  }
}

/** Limits the search to the segments of one line. */
function onLine(conversationId: string | null) {
  if (conversationId === null) return sql`1 = 1`
  return sql`m.segment in (
    with recursive above(segment) as (
      select head_segment from conversations where id = ${conversationId}
      union
      select s.parent from above join segments s on s.no = above.segment where s.parent is not null
    ) select segment from above)`
}

interface ReachedHit extends HitRow {
  reachedBy: string
}

/** The hits that a current line reaches, walking down from each hit's segment to the heads of conversations. */
function* reachedHits(
  { db, items, withinBudget }: Dialect,
  query: { tenant: string; conversationId: string | null },
  hits: readonly HitRow[],
): Script<ReachedHit[]> {
  if (hits.length === 0) return []
  const places = JSON.stringify(hits.map(({ segment, seq }) => [segment, seq]))
  const only = query.conversationId === null ? sql`1 = 1` : sql`c.id = ${query.conversationId}`
  const rows = yield* all({
    compile: () =>
      sql<{ segment: number; seq: number; id: string }>`
        with recursive reach(segment, seq, at, least) as (
          select hit.segment, hit.seq, hit.segment, hit.seq from ${items(places, ['segment', 'seq'])} as hit
          union
          select reach.segment, reach.seq, s.no, cast(0 as bigint) from reach join segments s on s.parent = reach.at
            where s.cut >= reach.least and ${withinBudget}
        )
        select reach.segment, reach.seq, c.id from reach join conversations c on c.head_segment = reach.at
          where c.tenant_id = ${query.tenant} and c.deleted_at is null and ${only} and ${withinBudget}
          order by c.created_at, c.id`.compile(db),
  })
  const reachedBy = new Map<string, string[]>()
  for (const { segment, seq, id } of rows) {
    const place = `${segment} ${seq}`
    reachedBy.set(place, [...(reachedBy.get(place) ?? []), id])
  }
  return hits.flatMap((hit) => {
    const ids = reachedBy.get(`${hit.segment} ${hit.seq}`) ?? []
    const id = ids.includes(hit.conversation_id) ? hit.conversation_id : ids[0]
    return id === undefined ? [] : [{ ...hit, reachedBy: id }]
  })
}

function* withFrames({ db, items }: Dialect, hits: readonly ReachedHit[]): Script<FoundMessage[]> {
  if (hits.length === 0) return []
  const places = JSON.stringify(hits.map(({ segment, seq }) => [segment, seq]))
  const events = yield* all({
    compile: () =>
      sql<{ segment: number; seq: number; frame: string; blob: string | null }>`
        select e.segment, e.seq, e.frame, e.blob from ${items(places, ['segment', 'seq'])} as hit
          join events e on e.segment = hit.segment and e.seq = hit.seq`.compile(db),
  })
  return hits.flatMap(({ segment, seq, message_id, role, created_at, reachedBy }): FoundMessage[] => {
    const event = events.find((one) => one.segment === segment && one.seq === seq)
    if (!event) return []
    const { frame, blob } = event
    return [
      { conversationId: reachedBy, seq, messageId: message_id, role, createdAt: created_at, frame, blob },
    ]
  })
}
