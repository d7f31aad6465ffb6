import type { Cursor } from '../protocol/cursor.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'

/** What the agent's graph remembers, step by step. The bytes are opaque to everything but the graph. */
export interface AgentStates {
  /** Stores a state. Refused with `lease_lost` when another worker holds the run by now (L8). */
  put(state: NewAgentState, fence: Fence | null): Promise<void>
  putWrites(place: StatePlace, writes: readonly AgentWrite[], fence: Fence | null): Promise<void>
  /** The state with this id, or a thread's newest. A thread that lacks the id inherits it from whichever has it. */
  get(place: { threadId: string; namespace: string; id: string | null }): Promise<StoredAgentState | null>
  list(query: AgentStatesQuery): Promise<StoredAgentState[]>
  /** What the states before this one have written to some channels, since each channel's last stored value. */
  history(place: StatePlace, channels: readonly string[]): Promise<Record<string, ChannelHistory>>
  deleteThread(threadId: string): Promise<void>
  /** Stores older entries of a history once; states that come later name them. Storing the same again changes nothing. */
  putEntries(chunk: EntryChunk, fence: Fence | null): Promise<void>
  /** The chunk with this id and all before it, the oldest first. */
  entries(id: string): Promise<Uint8Array[]>
  /** Where a run begins on its line: after which state, and where its own frames are. */
  past(query: { tenant: string; conversationId: ConversationId; runId: RunId }): Promise<RunPast>
}

export interface ChannelHistory {
  /** The last stored value; null when there is none. */
  seed: Typed | null
  /** Oldest first. */
  writes: AgentWrite[]
}

export interface EntryChunk {
  /** The id of the agent state that it was taken from: it goes with that state. */
  id: string
  parent: string | null
  bytes: Uint8Array
}

export interface Fence {
  conversationId: ConversationId
  runId: RunId
  epoch: number
}

export interface StatePlace {
  threadId: string
  namespace: string
  id: string
}

export interface AgentState extends StatePlace {
  parentId: string | null
  state: Typed
  metadata: Typed
  /** The channels' values; of a new state only those that have changed, the others are its parent's. */
  values: Record<string, Typed>
}

export interface NewAgentState extends AgentState {
  /** Channels whose values are the parent's. */
  unchanged: string[]
}

export interface Typed {
  type: string
  bytes: Uint8Array
}

export interface AgentWrite {
  taskId: string
  index: number
  channel: string
  value: Typed
}

export interface StoredAgentState extends AgentState {
  writes: AgentWrite[]
}

export interface AgentStatesQuery {
  threadId?: string
  namespace?: string
  id?: string
  /** Only states older than this one. */
  before?: string
}

export interface RunPast {
  /** The last agent state on the line before the run, with the place of its mark. */
  state: { id: string; cursor: Cursor } | null
  /** Right before the run's first frame; null when it has none yet. */
  start: Cursor | null
}
