import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { Idempotency, RunHold } from './ledger.ts'
import type { Grant, Question } from './questions.ts'
import type { RagScope } from './retrieval.ts'

/** How many messages may wait after the one that is being answered (R1). */
export const MAX_WAITING = 10

/**
 * The durable queue: accepted messages whose runs have not ended. A run leaves it in the transaction that stores its
 * terminal frame. Methods that refuse throw a WaymarkError.
 */
export interface Queue {
  /** Accepts a message; the same Idempotency-Key is accepted once (R6). */
  enqueue(command: EnqueueCommand): Promise<Accepted>
  read(tenant: string, conversationId: ConversationId): Promise<QueueState>
  /** How many messages wait, and how many are worked on, in all conversations. */
  depths(): Promise<{ waiting: number; active: number }>
  /** Takes a message out that is still waiting. */
  remove(tenant: string, conversationId: ConversationId, runId: RunId): Promise<void>
  /** Changes the words of a waiting message, or its place among those that wait, counted from 1. */
  edit(command: EditQueuedCommand): Promise<void>
  /** Asks for the run to be stopped: it ends as cancelled. One that still waits leaves the queue. */
  cancel(command: CancelCommand & { runId: RunId }): Promise<void>
  /** The same for whichever run is the current one; answers which, or null when there is none (R2). */
  stop(command: CancelCommand): Promise<RunId | null>
  /** The same for the active run; also removes and returns all messages that wait after it (D2). */
  stopAll(command: CancelCommand): Promise<{ runId: RunId | null; waiting: WaitingMessage[] }>

  /** Stores that a person is asked; asking again for the same call changes nothing. */
  ask(runId: RunId, toolCallId: string, question: Question): Promise<void>
  /** The question of a call that waits for an answer. */
  question(query: QuestionQuery): Promise<Question>
  answer(command: AnswerCommand): Promise<void>

  /** Claims the next free run for this worker; null when there is none. */
  claim(command: ClaimCommand): Promise<Claim | null>
  /** Holds these runs for longer; answers which are still the worker's own. */
  renew(worker: string, runIds: readonly string[], leaseMs: number): Promise<RunId[]>
  /** What people have asked of an active run so far. */
  wishes(runId: RunId): Promise<Wishes>
  /** Lets go of all runs of this worker; without one, of everybody's: for a process that knows it is alone. */
  release(worker?: string): Promise<void>
  /** Forgets a run that can't have a terminal frame any more, because its conversation or its place has gone. */
  abandon(runId: RunId): Promise<void>

  /** Tells whose queue has changed; null means that any may have. Returns how to stop listening. */
  onChange(listener: (conversationId: string | null) => void): () => void
}

export interface EnqueueCommand {
  tenant: string
  conversationId: ConversationId
  runId: RunId
  messageId: string
  content: string
  extras?: MessageExtras
  /** Whether the sender may change files; otherwise a person with that scope must approve each tool that does. */
  mayChangeFiles: boolean
  idempotency?: Idempotency
}

/** What goes with a message besides its words. */
export interface MessageExtras {
  /** Files whose whole text the model should see; with `content`, as it is in an editor and not yet on disk. */
  activeFiles?: { path: string; content: string | null }[]
  /** Texts that were sent along, kept as blobs. */
  attachments?: Attachment[]
  /** Which files snippets may come from. */
  ragScope?: RagScope
}

export interface Attachment {
  name: string
  /** Of its text: the blob's key. */
  sha256: string
  bytes: number
}

export interface EditQueuedCommand {
  tenant: string
  conversationId: ConversationId
  runId: RunId
  content?: string | undefined
  position?: number | undefined
}

export interface Accepted {
  messageId: string
  runId: RunId
  /** How many runs come before it. */
  position: number
  repeated: boolean
}

export interface QueueState {
  active: { runId: string; messageId: string; startedAt: string } | null
  waiting: WaitingMessage[]
}

export interface WaitingMessage {
  runId: string
  messageId: string
  content: string
  extras: MessageExtras
}

export interface CancelCommand {
  tenant: string
  conversationId: ConversationId
  by: string
}

export interface AnswerCommand extends CancelCommand {
  runId: RunId
  toolCallId: string
  approved: boolean
  reason: string | null
  /** Which question is answered; needed for a yes. */
  questionSha256: string | null
  grant: Grant
  /** The same call is allowed from now on. */
  always: boolean
}

export interface QuestionQuery {
  tenant: string
  conversationId: ConversationId
  runId: RunId
  toolCallId: string
}

export interface ClaimCommand {
  worker: string
  leaseMs: number
  /** The workspaces this process holds. Runs of conversations that name none are anybody's. */
  workspaceIds: readonly string[]
  /** Runs that it works on already: a process that was paused does not take them over from itself. */
  held: readonly string[]
}

export interface Claim {
  tenant: string
  conversationId: ConversationId
  workspaceId: string | null
  messageId: string
  content: string
  extras: MessageExtras
  mayChangeFiles: boolean
  hold: RunHold
  /** Whether another worker held it before and is gone. */
  isTakenOver: boolean
}

export interface Wishes {
  /** Whether it is still in the queue: a run that is not has ended, or has no place any more. */
  isQueued: boolean
  /** Who wants it stopped. */
  cancelledBy: string | null
  answers: { toolCallId: string; approved: boolean; reason: string | null; by: string; grant: Grant }[]
}
