import { sql } from 'kysely'
import type {
  AgentStatesQuery,
  AgentWrite,
  ChannelHistory,
  EntryChunk,
  Fence,
  NewAgentState,
  RunPast,
  StatePlace,
  StoredAgentState,
  Typed,
} from '../../../core/agent-states.ts'
import type { Line } from '../../../core/line.ts'
import { headOf, partAt } from '../../../core/line.ts'
import type { Cursor } from '../../../protocol/cursor.ts'
import type { ConversationId, RunId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { findHead, lineOf } from '../lines/line.ts'
import { isHeld } from '../queue/leases.ts'
import { leaseLost, noConversation, type Refusable } from '../refusal.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'

export function* putAgentState(
  dialect: Dialect,
  command: { state: NewAgentState; fence: Fence | null },
): Script<Refusable<{ done: true }>> {
  const { state, fence } = command
  if (fence && !(yield* isHeld(dialect, fence))) return leaseLost
  const { threadId, namespace, id } = state
  const content = {
    parent_id: state.parentId,
    value_places: JSON.stringify(yield* valuePlaces(dialect, state)),
    state_type: state.state.type,
    state: state.state.bytes,
    metadata_type: state.metadata.type,
    metadata: state.metadata.bytes,
  }
  yield* all(
    dialect.db
      .insertInto('agent_states')
      .values({ thread_id: threadId, namespace, id, ...content })
      .onConflict((conflict) => conflict.columns(['thread_id', 'namespace', 'id']).doUpdateSet(content)),
  )
  for (const [channel, { type, bytes }] of Object.entries(state.values)) {
    const value = { value_type: type, value: bytes }
    yield* all(
      dialect.db
        .insertInto('agent_values')
        .values({ thread_id: threadId, namespace, state_id: id, channel, ...value })
        .onConflict((conflict) =>
          conflict.columns(['thread_id', 'namespace', 'state_id', 'channel']).doUpdateSet(value),
        ),
    )
  }
  return { done: true }
}

/** For each channel, the thread and state that its value was stored with. */
type ValuePlaces = Record<string, [threadId: string, stateId: string]>

function* valuePlaces(dialect: Dialect, state: NewAgentState): Script<ValuePlaces> {
  const { threadId, namespace, id, parentId } = state
  const parent =
    parentId === null ? undefined : yield* findState(dialect, { threadId, namespace, id: parentId })
  const inherited = JSON.parse(parent?.value_places ?? '{}') as ValuePlaces
  const places: ValuePlaces = {}
  for (const channel of state.unchanged) {
    const place = inherited[channel]
    if (place) places[channel] = place
  }
  for (const channel of Object.keys(state.values)) places[channel] = [threadId, id]
  return places
}

export function* putAgentWrites(
  dialect: Dialect,
  command: { place: StatePlace; writes: readonly AgentWrite[]; fence: Fence | null },
): Script<Refusable<{ done: true }>> {
  const { place, writes, fence } = command
  if (fence && !(yield* isHeld(dialect, fence))) return leaseLost
  for (const write of writes) {
    const key = {
      thread_id: place.threadId,
      namespace: place.namespace,
      state_id: place.id,
      task_id: write.taskId,
      idx: write.index,
    }
    const content = { channel: write.channel, value_type: write.value.type, value: write.value.bytes }
    yield* all(
      dialect.db
        .insertInto('agent_writes')
        .values({ ...key, ...content })
        .onConflict((conflict) => {
          const same = conflict.columns(['thread_id', 'namespace', 'state_id', 'task_id', 'idx'])
          // The first version of a task's writes is kept; its marks, such as an error, are replaced.
          return write.index >= 0 ? same.doNothing() : same.doUpdateSet(content)
        }),
    )
  }
  return { done: true }
}

export function* putEntries(
  dialect: Dialect,
  { chunk, fence }: { chunk: EntryChunk; fence: Fence | null },
): Script<Refusable<{ done: true }>> {
  if (fence && !(yield* isHeld(dialect, fence))) return leaseLost
  yield* all(
    dialect.db
      .insertInto('entry_chunks')
      .values({ ...chunk })
      .onConflict((conflict) => conflict.doNothing()),
  )
  return { done: true }
}

export function* readEntries({ db }: Dialect, id: string): Script<Uint8Array[]> {
  const rows = yield* all({
    compile: () =>
      sql<{ bytes: Uint8Array }>`
        with recursive back(id, parent, bytes, depth) as (
          select id, parent, bytes, 0 from entry_chunks where id = ${id}
          union all
          select c.id, c.parent, c.bytes, back.depth + 1 from back join entry_chunks c on c.id = back.parent
        )
        select bytes from back order by depth desc`.compile(db),
  })
  return rows.map((row) => row.bytes)
}

export function* readAgentState(
  dialect: Dialect,
  query: { threadId: string; namespace: string; id: string | null },
): Script<StoredAgentState | null> {
  const row = yield* findState(dialect, query)
  return row ? yield* asStored(dialect, row) : null
}

function* findState(
  { db }: Dialect,
  { threadId, namespace, id }: { threadId: string; namespace: string; id: string | null },
): Script<Schema['agent_states'] | undefined> {
  const states = db.selectFrom('agent_states').selectAll().where('namespace', '=', namespace)
  const own = states.where('thread_id', '=', threadId)
  if (id === null) return yield* first(own.orderBy('id', 'desc').limit(1))
  return (yield* first(own.where('id', '=', id))) ?? (yield* first(states.where('id', '=', id).limit(1)))
}

export function* listAgentStates(dialect: Dialect, query: AgentStatesQuery): Script<StoredAgentState[]> {
  let states = dialect.db.selectFrom('agent_states').selectAll()
  if (query.threadId !== undefined) states = states.where('thread_id', '=', query.threadId)
  if (query.namespace !== undefined) states = states.where('namespace', '=', query.namespace)
  if (query.id !== undefined) states = states.where('id', '=', query.id)
  if (query.before !== undefined) states = states.where('id', '<', query.before)
  const found: StoredAgentState[] = []
  for (const row of yield* all(states.orderBy('id', 'desc'))) found.push(yield* asStored(dialect, row))
  return found
}

/** Deletes the chunks that were split off from states of this thread. */
export function* deleteEntries(db: Dialect['db'], threadId: string): Script<void> {
  yield* all(
    db
      .deleteFrom('entry_chunks')
      .where('id', 'in', (eb) =>
        eb.selectFrom('agent_states').select('id').where('thread_id', '=', threadId),
      ),
  )
}

export function* deleteAgentThread({ db }: Dialect, threadId: string): Script<{ done: true }> {
  yield* all(db.deleteFrom('agent_writes').where('thread_id', '=', threadId))
  yield* all(db.deleteFrom('agent_values').where('thread_id', '=', threadId))
  yield* deleteEntries(db, threadId)
  yield* all(db.deleteFrom('agent_states').where('thread_id', '=', threadId))
  return { done: true }
}

function* asStored(dialect: Dialect, row: Schema['agent_states']): Script<StoredAgentState> {
  const writes = yield* all(
    dialect.db
      .selectFrom('agent_writes')
      .selectAll()
      .where('thread_id', '=', row.thread_id)
      .where('namespace', '=', row.namespace)
      .where('state_id', '=', row.id)
      .orderBy('task_id')
      .orderBy('idx'),
  )
  return {
    threadId: row.thread_id,
    namespace: row.namespace,
    id: row.id,
    parentId: row.parent_id,
    state: { type: row.state_type, bytes: row.state },
    metadata: { type: row.metadata_type, bytes: row.metadata },
    values: yield* valuesOf(dialect, row),
    writes: writes.map(asWrite),
  }
}

function* valuesOf(dialect: Dialect, row: Schema['agent_states']): Script<Record<string, Typed>> {
  const places = JSON.parse(row.value_places) as ValuePlaces
  const values: Record<string, Typed> = {}
  for (const found of yield* valuesAt(dialect, row.namespace, Object.values(places))) {
    const place = places[found.channel]
    if (place?.[0] !== found.thread_id || place[1] !== found.state_id) continue
    values[found.channel] = { type: found.value_type, bytes: found.value }
  }
  return values
}

/** All values that were stored at these places. */
function* valuesAt(
  { db, isIn, list }: Dialect,
  namespace: string,
  places: readonly (readonly [threadId: string, stateId: string])[],
): Script<Schema['agent_values'][]> {
  if (places.length === 0) return []
  const [threads, states] = [0, 1].map((part) => [...new Set(places.map((place) => place[part] ?? ''))])
  return yield* all(
    db
      .selectFrom('agent_values as v')
      .selectAll()
      .where('v.namespace', '=', namespace)
      .where(isIn('v.thread_id', list(threads ?? [])))
      .where(isIn('v.state_id', list(states ?? []))),
  )
}

/** States read per statement; a channel's value is stored at least this often. */
const STATES_AT_ONCE = 64

/** Takes three statements however long the chain of states is; reading states one by one would cost a round trip each. */
export function* stateHistory(
  dialect: Dialect,
  { place, channels }: { place: StatePlace; channels: readonly string[] },
): Script<Record<string, ChannelHistory>> {
  const history: Record<string, ChannelHistory> = {}
  for (const channel of channels) history[channel] = { seed: null, writes: [] }
  const remaining = new Set(channels)
  let before = (yield* findState(dialect, place))?.parent_id ?? null
  while (before !== null && remaining.size > 0) {
    const states = yield* statesBack(dialect, place.namespace, before)
    const writes = yield* writesOf(dialect, place.namespace, states, [...remaining])
    for (const state of states) {
      for (const channel of remaining) {
        const own = writes.filter((one) => one.state_id === state.id && one.channel === channel)
        history[channel]?.writes.unshift(...own.map(asWrite))
      }
      const places = JSON.parse(state.value_places) as ValuePlaces
      const stored = [...remaining].filter((channel) => Object.hasOwn(places, channel))
      for (const channel of stored) {
        remaining.delete(channel)
        const at = places[channel]
        const values = at ? yield* valuesAt(dialect, place.namespace, [at]) : []
        const seed = values.find((value) => value.channel === channel)
        const entry = history[channel]
        if (seed && entry) entry.seed = { type: seed.value_type, bytes: seed.value }
      }
      if (remaining.size === 0) break
    }
    before = states.length < STATES_AT_ONCE ? null : (states.at(-1)?.parent_id ?? null)
  }
  return history
}

type StateLink = Pick<Schema['agent_states'], 'thread_id' | 'id' | 'parent_id' | 'value_places'>

/** This state and its ancestors, newest first. An ancestor may belong to another thread: ids are unique. */
function* statesBack({ db }: Dialect, namespace: string, id: string): Script<StateLink[]> {
  return yield* all({
    compile: () =>
      sql<StateLink>`
        with recursive back(thread_id, id, parent_id, value_places, depth) as (
          select thread_id, id, parent_id, value_places, 1 from agent_states
            where id = ${id} and namespace = ${namespace}
          union all
          select s.thread_id, s.id, s.parent_id, s.value_places, back.depth + 1 from back
            join agent_states s on s.id = back.parent_id and s.namespace = ${namespace}
            where back.depth < ${STATES_AT_ONCE}
        )
        select thread_id, id, parent_id, value_places from back order by depth`.compile(db),
  })
}

/** The states' writes, in the order in which the graph applied them. */
function* writesOf(
  { db, isIn, list }: Dialect,
  namespace: string,
  states: readonly StateLink[],
  channels: readonly string[],
): Script<Schema['agent_writes'][]> {
  return yield* all(
    db
      .selectFrom('agent_writes as w')
      .selectAll()
      .where('w.namespace', '=', namespace)
      .where(isIn('w.thread_id', list([...new Set(states.map((state) => state.thread_id))])))
      .where(isIn('w.state_id', list(states.map((state) => state.id))))
      .where(isIn('w.channel', list(channels)))
      .orderBy('w.task_id')
      .orderBy('w.idx'),
  )
}

function asWrite(write: Schema['agent_writes']): AgentWrite {
  const { task_id: taskId, idx: index, channel, value_type: type, value: bytes } = write
  return { taskId, index, channel, value: { type, bytes } }
}

/** The last agent state on the line before the run, and where the run's own frames begin. */
export function* runPast(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId; runId: RunId },
): Script<Refusable<RunPast>> {
  const { db } = dialect
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  const message = yield* first(
    db
      .selectFrom('messages')
      .select(['segment', 'seq'])
      .where('segment', '=', head.head_segment)
      .where('run_id', '=', query.runId)
      .where('role', '=', 'user'),
  )
  const before = message ? message.seq - 1 : headOf(line)
  for (const part of line.toReversed()) {
    if (part.from > before) continue
    const mark = yield* first(
      db
        .selectFrom('agent_checkpoints')
        .select(['checkpoint_id', 'seq'])
        .where('segment', '=', part.segment)
        .where('seq', '<=', Math.min(part.to, before))
        .orderBy('seq', 'desc')
        .limit(1),
    )
    if (!mark) continue
    const cursor: Cursor = { segmentId: part.segmentId, seq: mark.seq }
    return { state: { id: mark.checkpoint_id, cursor }, start: message ? cursorAt(line, before) : null }
  }
  return { state: null, start: message ? cursorAt(line, before) : null }
}

function cursorAt(line: Line, seq: number): Cursor {
  const part = partAt(line, seq)
  if (!part) throw new Error(`the line has no event ${seq}`)
  return { segmentId: part.segmentId, seq }
}
