import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { Idempotency, RunHold } from './ledger.ts'
import type { Always, Grant, Question } from './questions.ts'
import type { RagScope } from './retrieval.ts'

/** How many messages may wait after the one being answered (R1). */
export const MAX_WAITING = 10

/** Refuses a message when the conversation has this many runs in its queue; null accepts it. */
export function refuseEnqueue(runs: number): { refused: 'queue_full'; why: string } | null {
  // The first run is active or about to start, so it doesn't count as waiting.
  if (runs <= MAX_WAITING) return null
  return { refused: 'queue_full', why: `${MAX_WAITING} messages are already waiting. Try again later.` }
}

/**
 * The durable queue: accepted messages whose runs have not ended. A run leaves it in the transaction that stores its
 * terminal frame. Refusals throw a WaymarkError.
 */
export interface Queue {
  /** Accepts a message, once per Idempotency-Key (R6). */
  enqueue(command: EnqueueCommand): Promise<Accepted>
  read(tenant: string, conversationId: ConversationId): Promise<QueueState>
  /** Number of waiting messages and active runs, in all conversations. */
  depths(): Promise<{ waiting: number; active: number }>
  /** Removes a message that is still waiting. */
  remove(tenant: string, conversationId: ConversationId, runId: RunId): Promise<void>
  /** Changes the content of a waiting message, or its position among the waiting ones, counted from 1. */
  edit(command: EditQueuedCommand): Promise<void>
  /** Requests cancellation of a run. A run that is still waiting leaves the queue. */
  cancel(command: CancelCommand & { runId: RunId }): Promise<void>
  /** Cancels the current run and returns its id; null if there is none (R2). */
  stop(command: CancelCommand): Promise<RunId | null>
  /** Cancels the active run; also removes and returns all messages that wait after it (D2). */
  stopAll(command: CancelCommand): Promise<{ runId: RunId | null; waiting: WaitingMessage[] }>

  /** Stores a question for a person; storing it again for the same call changes nothing. */
  ask(runId: RunId, toolCallId: string, question: Question): Promise<void>
  /** The question of a call that is waiting for an answer. */
  question(query: QuestionQuery): Promise<Question>
  answer(command: AnswerCommand): Promise<void>

  /** Claims the next free run for this worker; null when there is none. */
  claim(command: ClaimCommand): Promise<Claim | null>
  /** Extends the leases of these runs; returns those that the worker still holds. */
  renew(worker: string, runIds: readonly string[], leaseMs: number): Promise<RunId[]>
  /** Cancellation and answers that people have sent for an active run. */
  signals(runId: RunId): Promise<Signals>
  /**
   * Releases all runs of this worker. Without an argument, releases all runs: only for a process that knows it is
   * alone.
   */
  release(worker?: string): Promise<void>
  /** Removes a run that can't end with a terminal frame, because its conversation or its place no longer exists. */
  abandon(runId: RunId): Promise<void>

  /** Reports the conversation whose queue has changed; null means any may have. Returns a function to unsubscribe. */
  onChange(listener: (conversationId: string | null) => void): () => void
}

export interface EnqueueCommand {
  tenant: string
  conversationId: ConversationId
  runId: RunId
  messageId: string
  content: string
  extras?: MessageExtras
  /** True if the sender may change files; otherwise a person with that scope must approve each tool that does. */
  mayChangeFiles: boolean
  /** The worker that alone may claim it until the time is over. */
  reserve?: { worker: string; leaseMs: number }
  idempotency?: Idempotency
}

/** The parts of a message other than its text. */
export interface MessageExtras {
  /** Files to send whole to the model; `content` is the unsaved text of an editor. */
  activeFiles?: { path: string; content: string | null }[]
  /** Attached texts, stored as blobs. */
  attachments?: Attachment[]
  /** Limits which files snippets may come from. */
  ragScope?: RagScope
  /** The message was typed into this agent's own terminal, and that agent answers it. */
  observed?: string
}

export interface Attachment {
  name: string
  /** SHA-256 of its text, which is the blob's key. */
  sha256: string
  bytes: number
  /** For images, whose text is a data URL. */
  media_type?: string
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
  /** Number of runs before it. */
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
  /** The question being answered; required for an approval. */
  questionSha256: string | null
  grant: Grant
  /** One of the question's options. */
  optionId?: string | null
  /** Allows the same call without asking from now on. */
  always: Always | null
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
  /** The workspaces of this process. Any process may claim runs of conversations without a workspace. */
  workspaceIds: readonly string[]
  /** Runs that this process already works on, so that a process that was paused doesn't take them over from itself. */
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
  /** True if another worker held it before and disappeared. */
  isTakenOver: boolean
}

export interface Signals {
  /** False once the run has left the queue: it has ended, or its place no longer exists. */
  isQueued: boolean
  /** Who requested the cancellation. */
  cancelledBy: string | null
  answers: {
    toolCallId: string
    approved: boolean
    reason: string | null
    by: string
    grant: Grant
    optionId: string | null
  }[]
}
