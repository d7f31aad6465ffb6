import type { Conversation, Settings, StoredSettings } from '../protocol/api/conversations.ts'
import type { Message } from '../protocol/api/ledger.ts'
import type { Cursor } from '../protocol/cursor.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId, RunId, SegmentId } from '../protocol/ids.ts'
import type { Excerpt } from './excerpt.ts'
import type { LinePart } from './line.ts'
import type { Undoing } from './operations.ts'
import type { SearchedKind } from './search.ts'

/** A conversation that is deleted can be undeleted; one that is gone can't, or never existed. */
export type Presence = 'present' | 'deleted' | 'gone'

/**
 * The ledger: append-only segments of events, and the lines they form (docs/spec/ledger.md). Refusals throw a
 * WaymarkError; `append` returns them instead, since a worker branches on them.
 */
export interface Ledger {
  create(command: CreateConversationCommand): Promise<CreateResult>
  append(command: AppendCommand): Promise<AppendResult>
  /** Creates a conversation that inherits this line up to a place. */
  fork(command: ForkCommand): Promise<CreateResult>
  /** The fork that an earlier request with this key created, or null. */
  forkedBefore(tenant: string, idempotency: Idempotency): Promise<Conversation | null>
  /** Removes the events after a place from the conversation's own line (D1). */
  deleteMessages(command: DeleteCommand): Promise<Deletion>
  /** Undoes a cut: returns to the last line the conversation left that contains this message (D3). */
  undeleteMessages(command: UndeleteCommand): Promise<Undeletion>
  /** Throws unless the message can be deleted. Returns the earlier answer if it was already deleted, otherwise null. */
  findDeletion(tenant: string, id: ConversationId, messageId: string): Promise<Deletion | null>
  /** Throws unless a retained line still contains the message. */
  assertCanUndelete(tenant: string, id: ConversationId, messageId: string): Promise<void>
  /** Merges the settings and appends the new title, if any. */
  change(tenant: string, id: ConversationId, change: ConversationChange): Promise<void>
  remove(tenant: string, id: ConversationId, by: string, undoing?: Undoing): Promise<void>
  /** Undoes `remove`. */
  undoRemove(tenant: string, id: ConversationId, by: string, undoing?: Undoing): Promise<void>

  /** Starts a run on the conversation's head and returns its first epoch. */
  openRun(command: OpenRunCommand): Promise<RunHold>
  /**
   * Raises the run's epoch, so that its previous holder can no longer append (L8). With `from`, only if that is still
   * its epoch: for a holder that continues after a frame that was not stored.
   */
  takeRun(tenant: string, runId: RunId, from?: number): Promise<RunHold>

  page(query: PageQuery): Promise<Page>
  /**
   * Pages from the cursor to the head, then each new page as it is committed, until the signal aborts. The first page
   * comes at once, even if empty.
   */
  follow(query: PageQuery, signal: AbortSignal): AsyncIterable<Page>
  line(tenant: string, id: ConversationId): Promise<LinePart[]>
  conversation(tenant: string, id: ConversationId): Promise<Conversation>
  presence(tenant: string, id: ConversationId): Promise<Presence>
  /** True if the tenant has, or had, this conversation. */
  owns(tenant: string, id: ConversationId): Promise<boolean>
  conversations(query: ConversationsQuery): Promise<ConversationsPage>
  /** Messages on current lines that contain the text, newest first. */
  search(query: SearchQuery): Promise<{ items: SearchHit[]; more: boolean }>
  messages(query: PageQuery): Promise<MessagesPage>
  branches(tenant: string, id: ConversationId): Promise<Branch[]>
  /** All conversations forked, directly or indirectly, from the same root. */
  family(tenant: string, id: ConversationId): Promise<FamilyMember[]>
  /** The last event before a place, and the checkpoint of its files; null means the current files. */
  checkpointAt(
    tenant: string,
    id: ConversationId,
    at: Place | null,
  ): Promise<{ after: number; checkpointId: string | null }>
  /** Throws when the store can't be read. */
  ping(): Promise<void>
  /** Throws when the store can't be written. */
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
  /** When it was created, in milliseconds; default: now. */
  createdAt?: number
  idempotency?: Idempotency
}

/** Makes a POST repeatable: the same key returns the first answer; with a different request it is refused. */
export interface Idempotency {
  key: string
  fingerprint: string
}

export interface CreateResult {
  conversation: Conversation
  /** True when this is the answer to an earlier identical request. */
  repeated: boolean
}

export interface ConversationChange {
  settings: StoredSettings
  title?: string
  /** The person who asked for it; without one, it is not noted as an operation. */
  by?: string
  undoing?: Undoing | undefined
}

export interface RunHold {
  runId: RunId
  epoch: number
  /** Number of frames of the run when it was claimed. */
  frames: number
}

export interface AppendCommand {
  tenant: string
  conversationId: ConversationId
  /**
   * The run of these frames: the same object that `openRun` or `takeRun` returned, because sent frames are counted by
   * it. Null for events outside a run.
   */
  run: RunHold | null
  frames: FrameDraft[]
  /**
   * Later frames of the run may be added to this append until its transaction starts, and deltas of one part joined. All of
   * them are stored, or none.
   */
  mayGrow?: boolean
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
  /** The person who asked for it. */
  by?: string
  idempotency?: Idempotency
}

export interface DeleteCommand {
  tenant: string
  conversationId: ConversationId
  at: Place
  newSegmentId: SegmentId
  by: string
  undoing?: Undoing | undefined
}

export interface Deletion {
  messageId: string
  /** The last event that remains on the line. */
  cutAfter: number
  /** The checkpoint of the files before the message. */
  checkpointId: string | null
  /** When it was cut, in milliseconds; the retention time counts from here. */
  at: number
}

export interface UndeleteCommand {
  tenant: string
  conversationId: ConversationId
  messageId: string
  by: string
  undoing?: Undoing | undefined
}

export interface Undeletion {
  headEventNumber: number
  /** The first message that this removed from the line, if any; undoing its cut returns to that line. */
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
  /** Returns the page that ends just before this event, instead of reading on from a cursor. */
  before?: number
}

export interface Page {
  conversationId: ConversationId
  /** Set when the reader's place is no longer on the line: it must discard all events after this cursor first (L7). */
  cut: Cursor | null
  firstSeq: number
  /** The frames, to the byte. */
  frames: readonly string[]
  /** The segment of each range of frames. */
  parts: readonly Pick<LinePart, 'segmentId' | 'from' | 'to'>[]
  /** The cursor to continue reading from. */
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
  /** The last conversation of the previous page. */
  after: { updatedAt: string; id: string } | null
  search: string | null
  /** Only conversations of this workspace; default: all. */
  workspaceId?: string | null
}

export interface SearchQuery {
  tenant: string
  /** The words to find; all must be there, and the last may be the start of a word. */
  search: string
  /** Only this conversation's line; default: all. */
  conversationId: ConversationId | null
  kinds?: readonly SearchedKind[] | null
  /** Only calls of this tool. */
  tool?: string | null
  /** Only calls and edits of this file, or of files in this folder. */
  path?: string | null
  since?: string | null
  until?: string | null
  limit: number
}

/** An event that has the words of a search. */
export interface SearchHit {
  conversationId: string
  eventNumber: number
  kind: SearchedKind
  tool: string | null
  path: string | null
  createdAt: string
  excerpt: Excerpt
}

export interface ConversationsPage {
  items: Conversation[]
  next: { updatedAt: string; id: string } | null
}

/** A member of a family, root first. Deleted members keep only their place. */
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
