import type { Usage } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { RunHold } from './ledger.ts'
import type { Grant, Question } from './questions.ts'
import type { MessageExtras } from './queue.ts'
import type { ChainStep, ContextPart, HeldParts } from './responses.ts'
import type { RunRecord } from './run-record.ts'
import type { RunWriter } from './run-writer.ts'

/** Answers messages. */
export interface Agent {
  /**
   * Works on one message until it is done, writing frames as it goes. Throws a ModelFailure when the model is
   * unavailable, and the abort reason of `signal` when it aborts.
   */
  run(turn: Turn): Promise<TurnOutcome>
  /** The parts that would be sent with the next message, without the message itself. */
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
  /** The workspace of its files; null when it has none. */
  workspaceId: string | null
  hold: RunHold
  message: { messageId: string; content: string; extras: MessageExtras }
  /** If false, a person with that scope must approve each tool that changes files. */
  mayChangeFiles: boolean
  writer: RunWriter
  /** The run's frames so far; not empty when another worker has already worked on it. */
  record: RunRecord
  signal: AbortSignal
  /** Renews the lease, by the database's clock; throws `lease_lost` when another worker holds the run (R4). */
  confirmHold(): Promise<void>
  /** Stores the question, so that it can be answered by the time it is shown. */
  ask(toolCallId: string, question: Question): Promise<void>
  /** Waits for a person's answer. */
  answerTo(toolCallId: string): Promise<PersonsAnswer>
}

export interface PersonsAnswer {
  approved: boolean
  reason: string | null
  by: string
  grant: Grant
  /** One of the options that the question offered. */
  optionId: string | null
}

export interface TurnOutcome {
  /** The agent state that the next run continues from. */
  stateId: string
  status: 'completed' | 'incomplete'
  reason: string | null
  usage: Usage
}

/** The model was unavailable or failed. */
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

/** A person cancelled the run. */
export class Cancelled extends Error {
  readonly by: string

  constructor(by: string) {
    super('the run was cancelled')
    this.name = 'Cancelled'
    this.by = by
  }
}
