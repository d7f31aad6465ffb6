import type { ResponseOutputItem } from 'openai/resources/responses/responses'
import type { ModelFailure } from '../../core/agent.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { RawItem } from './item-types.ts'

/** The result of one stream from the provider. */
export interface ModelResult {
  /** The output items, in the form in which the provider expects them back. */
  output: ResponseOutputItem[]
  /** Calls that wait for us, with the positions of their items. */
  calls: FunctionCall[]
  status: 'completed' | 'incomplete'
  reason: string | null
  usage: ModelUsage
  providerIds: string[]
  /** The last response object that the provider sent, as JSON. */
  payload: string | null
}

export interface ModelUsage {
  input: number
  output: number
  total: number
  cached: number
  reasoning: number
  /** As the provider reports it, in its own unit; null when it reports none. */
  cost: number | null
}

/** A call that waits for our answer. */
export interface FunctionCall {
  /** As frames name it: `function`, `custom_tool`, `shell` and so on. */
  toolType: string
  callId: string
  name: string
  arguments: string
  responseId: string
  outputIndex: number
  itemId: string
}

/** The state of one stream, which its handlers share. */
export interface Mapping {
  emit(frame: FrameDraft): void
  hasCall(callId: string): boolean
  responseId: string
  items: Map<number, OpenItem>
  result: ModelResult
  failure: ModelFailure | null
  /** Calls whose outcome arrived in the same stream: the provider has run them. */
  answered: Set<string>
  isEnded: boolean
}

/** The state of an item while it streams. */
export interface OpenItem {
  outputIndex: number
  itemId: string
  type: string
  /** The provider's call id; for tools that the provider runs itself, which have none, the item's id. */
  callId: string
  name: string
  raw: RawItem
  arguments: ArgumentsText
  /** The arguments as received. */
  written: string
  hasCode: boolean
  /** The text sent so far, so that the end of the item can add what is missing. */
  text: Map<number, string>
  citations: Map<number, number>
  refusals: Set<number>
  summaries: Set<number>
  isDone: boolean
}

export interface ArgumentsText {
  /** Returns the part of the next piece to show. */
  next(piece: string): string
}
