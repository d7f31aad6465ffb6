import { sql } from 'kysely'
import type { Removed, Swept, Unreachable } from '../../../core/collection.ts'
import { runIdOf } from '../../../core/frame-head.ts'
import { projectionTables } from '../../../core/projection.ts'
import type { MessageExtras } from '../../../core/queue.ts'
import { parseCopyWorkspaceId } from '../../../protocol/ids.ts'
import { deleteEntries } from '../context/agent-states.ts'
import { removeIndexed } from '../context/chunk-index.ts'
import { releaseBlocks } from '../context/request-blocks.ts'
import type { Dialect } from '../dialect.ts'
import { lockConversations } from '../lock.ts'
import { ABANDONED } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { isRebuilding } from './rebuilding.ts'

/** Expires and removes data that no line reaches (D3). */

interface Expiry {
  /** ISO time. */
  before: string
  /** Null for all tenants. */
  tenant: string | null
}

export function* expire(dialect: Dialect, expiry: Expiry): Script<void> {
  const { db } = dialect
  yield* all({
    compile: () =>
      sql`update conversations set is_expired = 1, settings = '{}'
        where is_expired = 0 and ${isOver('conversations', expiry)}`.compile(db),
  })
  // The log keeps who did what and when, without titles, settings and paths.
  yield* all({
    compile: () =>
      sql`update operations set details = '{}' where details <> '{}' and exists (
        select 1 from conversations c where c.id = operations.conversation_id and c.is_expired = 1)`.compile(
        db,
      ),
  })
  yield* all({
    compile: () =>
      sql`update left_lines set is_expired = 1 where is_expired = 0 and exists (
        select 1 from conversations c where c.id = left_lines.conversation_id
          and (c.is_expired = 1 or (left_lines.left_at <= ${expiry.before} and ${isOf('c', expiry)})))`.compile(
        db,
      ),
  })
}

/** Matches conversations that were deleted at or before that time. */
function isOver(alias: string, expiry: Expiry) {
  const deletedAt = sql.ref(`${alias}.deleted_at`)
  return sql`(${deletedAt} is not null and ${deletedAt} <= ${expiry.before} and ${isOf(alias, expiry)})`
}

function isOf(alias: string, { tenant }: Expiry) {
  return tenant === null ? sql`1 = 1` : sql`${sql.ref(`${alias}.tenant_id`)} = ${tenant}`
}

export function* unreachable(dialect: Dialect, query: Expiry & { limit: number }): Script<Unreachable[]> {
  if (yield* isRebuilding(dialect)) return []
  const { db } = dialect
  const still = sql`c.is_expired = 0 and not ${isOver('c', query)}`
  const isLeft = sql`l.left_at <= ${query.before} and ${isOf('c', query)}`
  return yield* all({
    compile: () =>
      sql<Unreachable>`
        with recursive reached(segment, upto) as (
          select c.head_segment, cast(${Number.MAX_SAFE_INTEGER} as bigint) from conversations c where ${still}
          union
          select l.segment, l.seq from left_lines l join conversations c on c.id = l.conversation_id
            where l.is_expired = 0 and ${still} and not (${isLeft})
          union
          select s.parent, s.cut from reached join segments s on s.no = reached.segment where s.parent is not null
        ), kept(segment, upto) as (
          select segment, max(upto) from reached group by segment
        ), over(segment, keep_to) as (
          select s.no, coalesce(k.upto, s.cut) from segments s left join kept k on k.segment = s.no
          where exists (select 1 from events e where e.segment = s.no and e.seq > coalesce(k.upto, s.cut))
          order by s.no limit ${query.limit}
        )
        select o.segment, o.keep_to as "keepTo", count(*) as events, cast(sum(e.bytes) as bigint) as bytes,
          (select count(*) from messages m where m.segment = o.segment and m.seq > o.keep_to) as messages,
          (select count(*) from checkpoints x where x.segment = o.segment and x.seq > o.keep_to) as checkpoints
        from over o join events e on e.segment = o.segment and e.seq > o.keep_to
        group by o.segment, o.keep_to order by o.segment`.compile(db),
  })
}

const nothing: Removed = { events: 0, bytes: 0, messages: 0, checkpoints: 0, agent_states: 0, runs: 0 }

/** Small enough that other writes hardly wait. */
const EVENTS_AT_ONCE = 500

export const CHECKPOINTS_REMOVED = 'checkpoints_removed'

/** Removes events from the end, so that the rest of the segment stays an intact chain even if the process is killed. */
export function* collectSegment(
  dialect: Dialect,
  { segment, keepTo }: Pick<Unreachable, 'segment' | 'keepTo'>,
): Script<{ removed: Removed; isDone: boolean }> {
  const { db } = dialect
  const owner = yield* first(db.selectFrom('segments').select('conversation_id').where('no', '=', segment))
  // A rebuild takes the same lock: from here on it either has started, or waits for this transaction.
  if (owner) yield* lockConversations(dialect, [owner.conversation_id])
  if (yield* isRebuilding(dialect)) return { removed: { ...nothing }, isDone: true }
  const events = yield* all(
    db
      .selectFrom('events')
      .select(['seq', 'bytes', sql<string>`substr(frame, 1, 400)`.as('head')])
      .where('segment', '=', segment)
      .where('seq', '>', keepTo)
      .orderBy('seq', 'desc')
      .limit(EVENTS_AT_ONCE),
  )
  const last = events[0]
  const from = events.at(-1)?.seq ?? keepTo + 1
  if (last) {
    yield* all(
      db
        .updateTable('segments')
        .set({ collected_to: sql<number>`coalesce(collected_to, ${last.seq})` })
        .where('no', '=', segment),
    )
  }
  const bytes = events.reduce((sum, event) => sum + event.bytes, 0)
  const removed: Removed = { ...nothing, events: events.length, bytes }
  for (const table of projectionTables) {
    const rows = yield* all(
      db.deleteFrom(table).where('segment', '=', segment).where('seq', '>=', from).returning('seq'),
    )
    if (table === 'messages' || table === 'checkpoints') removed[table] = rows.length
  }
  const requests = yield* all(
    db
      .deleteFrom('responses')
      .where('segment', '=', segment)
      .where('seq', '>=', from)
      .returning('request_blocks'),
  )
  yield* releaseBlocks(dialect, requests)
  yield* all(db.deleteFrom('response_ends').where('segment', '=', segment).where('seq', '>=', from))
  Object.assign(removed, yield* removeRuns(dialect, events))
  yield* all(db.deleteFrom('events').where('segment', '=', segment).where('seq', '>=', from))
  if (removed.checkpoints > 0) yield* count(dialect, CHECKPOINTS_REMOVED, removed.checkpoints)
  return { removed, isDone: events.length < EVENTS_AT_ONCE }
}

/**
 * Abandons runs that lose some of their frames and deletes those that lose all. Their agent states are removed too, unless
 * a remaining mark names one of them.
 */
function* removeRuns(
  dialect: Dialect,
  events: readonly { head: string }[],
): Script<Pick<Removed, 'runs' | 'agent_states'>> {
  const lost = new Map<string, number>()
  for (const { head } of events) {
    const runId = runIdOf(head)
    if (runId !== null) lost.set(runId, (lost.get(runId) ?? 0) + 1)
  }
  const { db } = dialect
  let runs = 0
  let agent_states = 0
  for (const [id, frames] of lost) {
    const run = yield* first(db.selectFrom('runs').select('frames').where('id', '=', id))
    if (run && run.frames > frames) {
      const rest = { frames: run.frames - frames, ended: ABANDONED }
      yield* all(db.updateTable('runs').set(rest).where('id', '=', id))
    } else if (run) {
      yield* all(db.deleteFrom('runs').where('id', '=', id))
      runs++
    }
    agent_states += yield* removeStates(dialect, id)
  }
  return { runs, agent_states }
}

function* removeStates({ db }: Dialect, threadId: string): Script<number> {
  const marked = yield* first(
    db
      .selectFrom('agent_states as s')
      .innerJoin('agent_checkpoints as a', 'a.checkpoint_id', 's.id')
      .select('s.id')
      .where('s.thread_id', '=', threadId)
      .limit(1),
  )
  if (marked) return 0
  yield* all(db.deleteFrom('agent_writes').where('thread_id', '=', threadId))
  yield* all(db.deleteFrom('agent_values').where('thread_id', '=', threadId))
  yield* deleteEntries(db, threadId)
  const states = yield* all(db.deleteFrom('agent_states').where('thread_id', '=', threadId).returning('id'))
  return states.length
}

function* count({ db }: Dialect, name: string, more: number): Script<void> {
  yield* all({
    compile: () =>
      sql`insert into counters (name, value) values (${name}, cast(${more} as bigint))
        on conflict (name) do update set value = counters.value + excluded.value`.compile(db),
  })
}

export function* readCounter({ db }: Dialect, name: string): Script<number> {
  const row = yield* first(db.selectFrom('counters').select('value').where('name', '=', name))
  return row?.value ?? 0
}

/** Checks that the store accepts writes, with a write that no reader notices. */
export function* probe(dialect: Dialect, _none: null): Script<{ done: true }> {
  yield* count(dialect, 'probes', 1)
  return { done: true }
}

export function* makeStoreId(dialect: Dialect, id: number): Script<number> {
  const { db } = dialect
  yield* all(
    db
      .insertInto('counters')
      .values({ name: STORE_ID, value: id })
      .onConflict((conflict) => conflict.doNothing()),
  )
  return yield* readCounter(dialect, STORE_ID)
}

const STORE_ID = 'store_id'

export function* sweep(dialect: Dialect, command: { before: string }): Script<Swept> {
  const { db } = dialect
  const { before } = command
  if (yield* isRebuilding(dialect)) return { conversations: 0, idempotency_keys: 0, tokens: 0 }
  yield* all(db.deleteFrom('left_lines').where('is_expired', '=', 1))
  let swept = new Set<string>()
  for (;;) {
    // Leaves first, so that readers of living conversations can still trace their line to the root (L7).
    const gone = yield* all({
      compile: () =>
        sql<{ conversation_id: string }>`delete from segments where
          exists (select 1 from conversations c where c.id = segments.conversation_id and c.is_expired = 1)
          and not exists (select 1 from events e where e.segment = segments.no)
          and not exists (select 1 from segments child where child.parent = segments.no)
          returning conversation_id`.compile(db),
    })
    if (gone.length === 0) break
    swept = new Set([...swept, ...gone.map((row) => row.conversation_id)])
  }
  // Notes about the sessions of hosted agents.
  for (const id of swept) yield* removeStates(dialect, id)
  // Indexes of attachments that are no longer on any line.
  const lost = yield* all({
    compile: () =>
      sql<{
        scope: string
        path: string
      }>`select f.scope, f.path from index_files f where f.scope like 'attachment:%'
        and not exists (select 1 from attachments a where a.sha256 = substr(f.scope, 12))`.compile(db),
  })
  for (const { scope, path } of lost) yield* removeIndexed(dialect, { scope, paths: [path] })
  // Indexes of working copies that no conversation uses.
  for (const { scope } of yield* all(db.selectFrom('index_files').select('scope').distinct())) {
    const [workspaceId = ''] = scope.split('/')
    if (!parseCopyWorkspaceId(workspaceId)) continue
    const used = yield* first(
      db
        .selectFrom('conversations')
        .select('id')
        .where('workspace_id', '=', workspaceId)
        .where('is_expired', '=', 0)
        .limit(1),
    )
    if (used) continue
    const files = yield* all(db.selectFrom('index_files').select('path').where('scope', '=', scope))
    yield* removeIndexed(dialect, { scope, paths: files.map((file) => file.path) })
  }
  // Runs that never wrote a frame and whose segment no longer exists.
  yield* all({
    compile: () =>
      sql`delete from runs where frames = 0 and not exists (select 1 from segments s where s.no = runs.segment)`.compile(
        db,
      ),
  })
  const keys = yield* all(db.deleteFrom('idempotency').where('created_at', '<', before).returning('key'))
  const tokens = yield* all(db.deleteFrom('tokens').where('expires_at', '<', before).returning('id'))
  return { conversations: swept.size, idempotency_keys: keys.length, tokens: tokens.length }
}

export function* unreferencedBlobs(dialect: Dialect, keys: readonly string[]): Script<string[]> {
  if (yield* isRebuilding(dialect)) return []
  const { db, isIn, list } = dialect
  const frames = yield* all(
    db
      .selectFrom('events as e')
      .select('e.blob as key')
      .distinct()
      .where(isIn('e.blob', list(keys))),
  )
  const outputs = yield* all(
    db
      .selectFrom('tool_outputs as t')
      .select('t.output_ref as key')
      .distinct()
      .where(isIn('t.output_ref', list(keys))),
  )
  const asked = yield* all(
    db
      .selectFrom('responses as r')
      .select('r.request_blob as key')
      .where(isIn('r.request_blob', list(keys))),
  )
  const answered = yield* all(
    db
      .selectFrom('response_ends as r')
      .select('r.response_blob as key')
      .where(isIn('r.response_blob', list(keys))),
  )
  const summaries = yield* all(
    db
      .selectFrom('memories as m')
      .select('m.summary_ref as key')
      .where(isIn('m.summary_ref', list(keys))),
  )
  const attached = yield* all(
    db
      .selectFrom('attachments as a')
      .select('a.sha256 as key')
      .where(isIn('a.sha256', list(keys))),
  )
  const named = [...frames, ...outputs, ...asked, ...answered, ...summaries, ...attached]
  const referenced = new Set(named.map((row) => row.key))
  // Attachments of waiting messages.
  for (const { extras } of yield* all(
    db.selectFrom('queue').select('extras').where('extras', 'is not', null),
  )) {
    const { attachments = [] } = JSON.parse(extras ?? '{}') as MessageExtras
    for (const { sha256 } of attachments) referenced.add(sha256)
  }
  return keys.filter((key) => !referenced.has(key))
}
