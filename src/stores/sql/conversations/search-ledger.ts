import { type RawBuilder, sql } from 'kysely'
import { encoded, encodedPrefixes, type SearchedKind, type SearchTerms } from '../../../core/search.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

export interface FoundEvent {
  conversationId: string
  seq: number
  kind: SearchedKind
  tool: string | null
  path: string | null
  createdAt: string
  frame: string
  blob: string | null
}

export interface LedgerSearch {
  tenant: string
  terms: SearchTerms
  conversationId: string | null
  kinds: readonly SearchedKind[] | null
  tool: string | null
  /** A file, or a folder with everything below it. */
  path: string | null
  since: string | null
  until: string | null
  limit: number
}

interface HitRow {
  segment: number
  seq: number
  conversation_id: string
  kind: SearchedKind
  tool: string | null
  path: string | null
  created_at: string
}

const BATCH = 200
const MAX_BATCHES = 20
/** Words of more rows than this are frequent: the newest rows have enough of them, and sorting all would take longer. */
const FEW = 1000
const NEWEST = 4000

/**
 * The newest events on current lines that have all words, each once, however many forks share it. An event is found in the
 * conversation that it belongs to, or, if that was deleted or has left it, in a fork that still has it.
 */
export function* searchLedger(
  dialect: Dialect,
  query: LedgerSearch,
): Script<{ items: FoundEvent[]; more: boolean }> {
  if (yield* isFrequent(dialect, query)) {
    const hits = yield* all(newestHits(dialect, query))
    const found = yield* reachedHits(dialect, query, hits)
    if (found.length > query.limit) {
      return { items: yield* withFrames(dialect, found.slice(0, query.limit)), more: true }
    }
  }
  const found: ReachedHit[] = []
  let hits: HitRow[] = []
  for (let batch = 0; batch < MAX_BATCHES && found.length <= query.limit; batch++) {
    hits = yield* all(indexedHits(dialect, query, batch * BATCH))
    found.push(...(yield* reachedHits(dialect, query, hits)))
    if (hits.length < BATCH) break
  }
  // After the last batch there may be more, further back.
  const more = found.length > query.limit || hits.length === BATCH
  return { items: yield* withFrames(dialect, found.slice(0, query.limit)), more }
}

const columns = sql`s.segment, s.seq, s.conversation_id, s.kind, s.tool, s.path, s.created_at`
const newestFirst = sql`order by s.created_at desc, s.segment desc, s.seq desc`

/** Counts no further than it must. */
function* isFrequent({ db, name }: Dialect, { terms, conversationId }: LedgerSearch): Script<boolean> {
  // SQLite's index can be read for some segments only, which is fast for any word.
  if (name === 'sqlite' && conversationId !== null) return false
  const rows =
    name === 'sqlite'
      ? sql`searched_words w where w.searched_words match ${ftsQuery(terms)}`
      : sql`searched s where s.vector @@ ${tsquery(terms)}`
  const [counted] = yield* all({
    compile: () =>
      sql<{ found: number }>`select count(*) as found from (
        select 1 as one from ${rows} limit ${FEW + 1}
      ) as counted`.compile(db),
  })
  return (counted?.found ?? 0) > FEW
}

/** The hits among the newest rows. */
function newestHits(dialect: Dialect, query: LedgerSearch) {
  const { db, name } = dialect
  const hasWords = name === 'sqlite' ? containsWords(query.terms) : sql`s.vector @@ ${tsquery(query.terms)}`
  const newest =
    query.conversationId === null
      ? sql`(select * from searched s ${newestFirst} limit ${NEWEST}) s`
      : sql`above cross join lateral (
          select * from searched s where s.segment = above.segment order by s.seq desc limit ${NEWEST}
        ) s`
  // With a join, Postgres reads the newest rows once for each conversation.
  const tenantOf = sql`(select c.tenant_id from conversations c where c.id = s.conversation_id)`
  return {
    compile: () =>
      sql<HitRow>`${ancestry(query.conversationId)} select ${columns} from ${newest}
        where ${hasWords} and ${filters(query, tenantOf)} ${newestFirst} limit ${BATCH}`.compile(db),
  }
}

/** A batch of the hits that the index finds. */
function indexedHits(dialect: Dialect, query: LedgerSearch, offset: number) {
  const { db, name, withinBudget } = dialect
  const hits = name === 'sqlite' ? sqliteHits(query) : postgresHits(query)
  return {
    compile: () =>
      sql<HitRow>`${ancestry(query.conversationId)} select ${columns} from ${hits}
        and ${filters(query, sql`c.tenant_id`)} and ${withinBudget} ${newestFirst} limit ${BATCH} offset ${offset}`.compile(
        db,
      ),
  }
}

/** The segments of one line. */
function ancestry(conversationId: string | null): RawBuilder<unknown> {
  if (conversationId === null) return sql``
  return sql`with recursive above(segment) as (
    select head_segment from conversations where id = ${conversationId}
    union
    select s.parent from above join segments s on s.no = above.segment where s.parent is not null
  )`
}

function sqliteHits({ terms, conversationId }: LedgerSearch): RawBuilder<unknown> {
  const rows = sql`searched s on s.segment = w.rowid >> 32 and s.seq = w.rowid & 4294967295
    join conversations c on c.id = s.conversation_id where w.searched_words match ${ftsQuery(terms)}`
  if (conversationId === null) return sql`searched_words w cross join ${rows}`
  // The index is read only for the row ids of these segments.
  return sql`above cross join searched_words w cross join ${rows}
    and w.rowid >= above.segment * 4294967296 and w.rowid < (above.segment + 1) * 4294967296`
}

function postgresHits({ terms, conversationId }: LedgerSearch): RawBuilder<unknown> {
  const rows = sql`searched s join conversations c on c.id = s.conversation_id where s.vector @@ ${tsquery(terms)}`
  return conversationId === null ? rows : sql`${rows} and s.segment in (select segment from above)`
}

function filters(
  { tenant, kinds, tool, path, since, until }: LedgerSearch,
  tenantOf: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const parts = [sql`${tenantOf} = ${tenant}`]
  if (kinds !== null) parts.push(sql`s.kind in (${sql.join([...kinds])})`)
  if (tool !== null) parts.push(sql`s.tool = ${tool}`)
  if (path !== null) {
    const below = `${path.replace(/\/+$/, '').replaceAll(/[\\%_]/g, String.raw`\$&`)}/%`
    parts.push(sql`(s.path = ${path} or s.path like ${below} escape '\\')`)
  }
  if (since !== null) parts.push(sql`s.created_at >= ${since}`)
  if (until !== null) parts.push(sql`s.created_at < ${until}`)
  return sql.join(parts, sql` and `)
}

/** The words consist of letters, digits and marks that no query language uses, so they need no escapes. */
function ftsQuery({ words, prefix }: SearchTerms): string {
  const exact = words.map((word) => `"${encoded(word)}"`)
  const begins = prefix === null ? [] : [encodedPrefixes(prefix).map((form) => `"${form}" *`)]
  return [...exact, ...begins.map((forms) => `(${forms.join(' OR ')})`)].join(' AND ')
}

function tsquery({ words, prefix }: SearchTerms): RawBuilder<unknown> {
  const exact = words.map((word) => `'${encoded(word)}'`)
  const begins = prefix === null ? [] : [encodedPrefixes(prefix).map((form) => `'${form}':*`)]
  const text = [...exact, ...begins.map((forms) => `(${forms.join(' | ')})`)].join(' & ')
  return sql`cast(${text} as tsquery)`
}

function containsWords({ words, prefix }: SearchTerms): RawBuilder<unknown> {
  const exact = words.map((word) => sql`instr(' ' || s.words || ' ', ${` ${encoded(word)} `}) > 0`)
  const begins = (prefix === null ? [] : encodedPrefixes(prefix)).map(
    (form) => sql`instr(' ' || s.words, ${` ${form}`}) > 0`,
  )
  const parts = begins.length === 0 ? exact : [...exact, sql`(${sql.join(begins, sql` or `)})`]
  return sql.join(parts, sql` and `)
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

function* withFrames({ db, items }: Dialect, hits: readonly ReachedHit[]): Script<FoundEvent[]> {
  if (hits.length === 0) return []
  const places = JSON.stringify(hits.map(({ segment, seq }) => [segment, seq]))
  const events = yield* all({
    compile: () =>
      sql<{ segment: number; seq: number; frame: string; blob: string | null }>`
        select e.segment, e.seq, e.frame, e.blob from ${items(places, ['segment', 'seq'])} as hit
          join events e on e.segment = hit.segment and e.seq = hit.seq`.compile(db),
  })
  return hits.flatMap(({ segment, seq, kind, tool, path, created_at, reachedBy }): FoundEvent[] => {
    const event = events.find((one) => one.segment === segment && one.seq === seq)
    if (!event) return []
    const { frame, blob } = event
    return [{ conversationId: reachedBy, seq, kind, tool, path, createdAt: created_at, frame, blob }]
  })
}
