import type { Usage } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { RunHold } from './ledger.ts'
import type { Grant, Question } from './questions.ts'
import type { MessageExtras } from './queue.ts'
import type { ChainStep, ContextPart, HeldParts } from './responses.ts'
import type { RunRecord } from './run-record.ts'
import type { RunWriter } from './run-writer.ts'

/** What answers messages. */
export interface Agent {
  /**
   * Works on one message until there is nothing left to do, writing frames as it goes. Throws a ModelFailure when the
   * model can't be had, and whatever `signal` was aborted with when it is.
   */
  run(turn: Turn): Promise<TurnOutcome>
  /** What the model would be told with the next message, but for the message. */
  preview(where: {
    tenant: string
    conversationId: ConversationId
    workspaceId: string | null
  }): Promise<{ chain: ChainStep; parts: ContextPart[]; held: HeldParts }>
}

export interface Turn {
  tenant: string
  conversationId: ConversationId
  runId: RunId
  /** Where its files are; null when it is about none. */
  workspaceId: string | null
  hold: RunHold
  message: { messageId: string; content: string; extras: MessageExtras }
  /** Otherwise a person with that scope must approve each tool that changes files. */
  mayChangeFiles: boolean
  writer: RunWriter
  /** The run's frames so far; not empty when another worker has worked on it before. */
  record: RunRecord
  signal: AbortSignal
  /** Renews the lease, by the database's clock; throws `lease_lost` when another worker holds the run (R4). */
  confirmHold(): Promise<void>
  /** Makes the call one that a person can answer: before they are shown the question. */
  ask(toolCallId: string, question: Question): Promise<void>
  /** Waits for their answer. */
  answerTo(toolCallId: string): Promise<PersonsAnswer>
}

export interface PersonsAnswer {
  approved: boolean
  reason: string | null
  by: string
  grant: Grant
}

export interface TurnOutcome {
  /** The agent state to go on from. */
  stateId: string
  status: 'completed' | 'incomplete'
  reason: string | null
  usage: Usage
}

/** The model could not be had, or gave up. */
export class ModelFailure extends Error {
  readonly code: string
  readonly isRetryable: boolean

  constructor(code: string, message: string, options: { isRetryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause })
    this.name = 'ModelFailure'
    this.code = code
    this.isRetryable = options.isRetryable
  }
}

/** A person wants the run to stop. */
export class Cancelled extends Error {
  readonly by: string

  constructor(by: string) {
    super('the run was cancelled')
    this.name = 'Cancelled'
    this.by = by
  }
}
