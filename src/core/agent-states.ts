import type { Cursor } from '../protocol/cursor.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'

/** The states of the agent graph, step by step. Their bytes are opaque to everything but the graph. */
export interface AgentStates {
  /** Stores a state. Throws `lease_lost` when another worker now holds the run (L8). */
  put(state: NewAgentState, fence: Fence | null): Promise<void>
  putWrites(place: StatePlace, writes: readonly AgentWrite[], fence: Fence | null): Promise<void>
  /**
   * The state with this id, or a thread's newest. A thread that lacks the id inherits it from the thread that has it.
   */
  get(place: { threadId: string; namespace: string; id: string | null }): Promise<StoredAgentState | null>
  list(query: AgentStatesQuery): Promise<StoredAgentState[]>
  /** The values that earlier states wrote to these channels since each channel's last stored value. */
  history(place: StatePlace, channels: readonly string[]): Promise<Record<string, ChannelHistory>>
  deleteThread(threadId: string): Promise<void>
  /** Stores older history entries once; later states refer to them. Storing the same chunk again changes nothing. */
  putEntries(chunk: EntryChunk, fence: Fence | null): Promise<void>
  /** The chunk with this id and all chunks before it, oldest first. */
  entries(id: string): Promise<Uint8Array[]>
  /** Where a run starts on its line: the agent state before it, and the cursor before its first frame. */
  past(query: { tenant: string; conversationId: ConversationId; runId: RunId }): Promise<RunPast>
}

export interface ChannelHistory {
  /** The last stored value; null when there is none. */
  seed: Typed | null
  /** Oldest first. */
  writes: AgentWrite[]
}

export interface EntryChunk {
  /** The id of the agent state it was taken from; it is removed with that state. */
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
  /** The channels' values. A new state has only the changed ones; the others are its parent's. */
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
  /** The last agent state on the line before the run, and the cursor of its frame. */
  state: { id: string; cursor: Cursor } | null
  /** The cursor right before the run's first frame; null when it has none yet. */
  start: Cursor | null
}
