import type { Conversation, Message, Settings } from '../protocol/api.ts'
import type { Cursor } from '../protocol/cursor.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId, RunId, SegmentId } from '../protocol/ids.ts'
import type { LinePart } from './line.ts'

/**
 * The ledger: append-only segments of events, and the lines they make (docs/spec/ledger.md). Methods that refuse throw
 * a WaymarkError; `append` returns its refusals, since a worker branches on them.
 */
export interface Ledger {
  create(command: CreateConversationCommand): Promise<CreateResult>
  append(command: AppendCommand): Promise<AppendResult>
  /** A new conversation whose line is this one's up to and including `after`. */
  fork(command: ForkCommand): Promise<void>
  /** A new segment of the same conversation behind `after`; what followed leaves the line. */
  cut(command: CutCommand): Promise<void>
  /** Back to an earlier segment of the conversation: undoes a cut. */
  moveHead(command: MoveHeadCommand): Promise<void>
  /** Merges the settings and, if there is one, appends the new title. */
  change(tenant: string, id: ConversationId, change: ConversationChange): Promise<void>
  remove(tenant: string, id: ConversationId, by: string): Promise<void>

  /** Starts a run on the conversation's head and returns its first epoch. */
  openRun(command: OpenRunCommand): Promise<RunHold>
  /**
   * Raises the run's epoch, so that whoever held it before can't append any more (L8). With `from`, only when that is
   * still its epoch: for a holder that goes on behind a frame that was not stored.
   */
  takeRun(tenant: string, runId: RunId, from?: number): Promise<RunHold>

  page(query: PageQuery): Promise<Page>
  /**
   * Pages from the cursor to the head, then each new one as it is committed, until the signal aborts. The first comes
   * at once, empty if need be.
   */
  follow(query: PageQuery, signal: AbortSignal): AsyncIterable<Page>
  line(tenant: string, id: ConversationId): Promise<LinePart[]>
  conversation(tenant: string, id: ConversationId): Promise<Conversation>
  conversations(query: ConversationsQuery): Promise<ConversationsPage>
  messages(query: PageQuery): Promise<MessagesPage>
  branches(tenant: string, id: ConversationId): Promise<Branch[]>
  /** Fails when the store can't be read. */
  ping(): Promise<void>
  close(): Promise<void>
}

export interface CreateConversationCommand {
  tenant: string
  conversationId: ConversationId
  segmentId: SegmentId
  workspaceId: string | null
  settings: Settings
  frame: FrameDraft<'conversation.created'>
  idempotency?: Idempotency
}

/** A POST that may be sent again: the same key gets the first answer back, with a different request it is refused. */
export interface Idempotency {
  key: string
  fingerprint: string
}

export interface CreateResult {
  conversation: Conversation
  /** True when the same request had been answered before, and this is that answer. */
  repeated: boolean
}

export interface ConversationChange {
  settings: Settings
  title?: string
}

export interface RunHold {
  runId: RunId
  epoch: number
  /** How many frames the run had when it was taken. */
  frames: number
}

export interface AppendCommand {
  tenant: string
  conversationId: ConversationId
  /**
   * The run these frames belong to, as `openRun` or `takeRun` returned it: what was sent is counted by that very object.
   * Null for what happens outside a run.
   */
  run: RunHold | null
  frames: FrameDraft[]
}

export type AppendRefusal = Extract<
  ErrorCode,
  'conversation_not_found' | 'run_not_found' | 'lease_lost' | 'run_ended' | 'segment_cut' | 'frame_missing'
>

export type AppendResult =
  | { ok: true; firstSeq: number; lastSeq: number }
  | { ok: false; refusal: AppendRefusal }

export interface ForkCommand {
  tenant: string
  conversationId: ConversationId
  after: number
  newConversationId: ConversationId
  newSegmentId: SegmentId
  title?: string
}

export interface CutCommand {
  tenant: string
  conversationId: ConversationId
  after: number
  newSegmentId: SegmentId
  messageId: string
  by: string
}

export interface MoveHeadCommand {
  tenant: string
  conversationId: ConversationId
  segmentId: SegmentId
}

export interface OpenRunCommand {
  tenant: string
  conversationId: ConversationId
  runId: RunId
}

export interface PageQuery {
  tenant: string
  conversationId: ConversationId
  cursor: Cursor | null
  limit: number
}

export interface Page {
  conversationId: ConversationId
  /** Set when the reader's place is no longer on the line: it must drop everything behind this one first (L7). */
  cut: Cursor | null
  firstSeq: number
  /** The frames, to the byte. */
  frames: readonly string[]
  /** Which segment each run of frames stands in. */
  parts: readonly Pick<LinePart, 'segmentId' | 'from' | 'to'>[]
  /** Where reading goes on. */
  last: Cursor
  /** The chained digest at `last`, in hex. */
  digest: string
  atEnd: boolean
}

export interface MessagesPage {
  items: Message[]
  next: Cursor | null
}

export interface ConversationsQuery {
  tenant: string
  limit: number
  /** The last conversation of the page before. */
  after: { updatedAt: string; id: string } | null
  search: string | null
}

export interface ConversationsPage {
  items: Conversation[]
  next: { updatedAt: string; id: string } | null
}

export interface Branch {
  conversationId: ConversationId
  fromEventNumber: number
  createdAt: string
}
