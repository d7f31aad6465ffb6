import type { Conversation, Settings, StoredSettings } from '../protocol/api/conversations.ts'
import type { Message } from '../protocol/api/ledger.ts'
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
  /** A new conversation whose line is this one's up to a place. */
  fork(command: ForkCommand): Promise<CreateResult>
  /** The fork that was made for this request before, or null. */
  forkedBefore(tenant: string, idempotency: Idempotency): Promise<Conversation | null>
  /** The same for the conversation itself: the events after the place leave its line (D1). */
  cut(command: CutCommand): Promise<Cut>
  /** Back to the line that the conversation left last of those that have this message: undoes a cut (D3). */
  undoCut(command: UndoCutCommand): Promise<UndoneCut>
  /** The message, if it can be deleted; refuses otherwise. Of one that has been, what was answered then. */
  deletable(tenant: string, id: ConversationId, messageId: string): Promise<Cut | null>
  /** Refuses when there is no line with this message to go back to. */
  undeletable(tenant: string, id: ConversationId, messageId: string): Promise<void>
  /** Merges the settings and, if there is one, appends the new title. */
  change(tenant: string, id: ConversationId, change: ConversationChange): Promise<void>
  remove(tenant: string, id: ConversationId, by: string): Promise<void>
  /** Undoes that. */
  undoRemove(tenant: string, id: ConversationId, by: string): Promise<void>

  /** Starts a run on the conversation's head and returns its first epoch. */
  openRun(command: OpenRunCommand): Promise<RunHold>
  /**
   * Raises the run's epoch, so that its previous holder can't append any more (L8). With `from`, only when that is
   * still its epoch: for a holder that continues after a frame that was not stored.
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
  /** Whether the tenant has, or had, this conversation. */
  owns(tenant: string, id: ConversationId): Promise<boolean>
  conversations(query: ConversationsQuery): Promise<ConversationsPage>
  messages(query: PageQuery): Promise<MessagesPage>
  branches(tenant: string, id: ConversationId): Promise<Branch[]>
  /** All that were forked from the same root, however many forks ago. */
  family(tenant: string, id: ConversationId): Promise<FamilyMember[]>
  /** The last event before a place, and the checkpoint with the files as they were there; null: as they are now. */
  checkpointAt(
    tenant: string,
    id: ConversationId,
    at: Place | null,
  ): Promise<{ after: number; checkpointId: string | null }>
  /** Fails when the store can't be read. */
  ping(): Promise<void>
  /** Throws when the store takes no write. */
  probeWrite(): Promise<void>
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
  settings: StoredSettings
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

/** A place on a line: after an event, or just before the message with this id. */
export type Place = { after: number } | { before: string }

export interface ForkCommand {
  tenant: string
  conversationId: ConversationId
  /** Null: after the last event. */
  at: Place | null
  newConversationId: ConversationId
  newSegmentId: SegmentId
  title?: string
  /** Where its files are; default: where its parent's are. */
  workspaceId?: string
  idempotency?: Idempotency
}

export interface CutCommand {
  tenant: string
  conversationId: ConversationId
  at: Place
  newSegmentId: SegmentId
  by: string
}

export interface Cut {
  messageId: string
  /** The last event that is still on the line. */
  cutAfter: number
  /** The files as they were before the message. */
  checkpointId: string | null
  /** When, in milliseconds: the retention time counts from here. */
  at: number
}

export interface UndoCutCommand {
  tenant: string
  conversationId: ConversationId
  messageId: string
  by: string
}

export interface UndoneCut {
  headEventNumber: number
  /** The first message that left the line by this, if any did: undoing its cut leads back. */
  leftMessageId: string | null
  at: number
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
  /** Instead of reading on from a cursor: the page that ends just before this event. */
  before?: number
}

export interface Page {
  conversationId: ConversationId
  /** Set when the reader's place is no longer on the line: it must discard all events after this cursor first (L7). */
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
  /** Only those that work there; default: all. */
  workspaceId?: string | null
}

export interface ConversationsPage {
  items: Conversation[]
  next: { updatedAt: string; id: string } | null
}

/** One of a family, its root first. Of deleted ones only their place is told. */
export interface FamilyMember {
  id: string
  title: string | null
  parent: { conversation_id: string; event_number: number } | null
  headEventNumber: number
  workspaceId: string | null
  isDeleted: boolean
  createdAt: string
  updatedAt: string
}

export interface Branch {
  conversationId: ConversationId
  fromEventNumber: number
  createdAt: string
}
