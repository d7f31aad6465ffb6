import type { Frame } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { Fence } from './agent-states.ts'
import type { RagScope } from './retrieval.ts'

/**
 * One round trip to the model, as it was (C1). What was asked is stored before it is sent, what came of it when it has
 * ended: two rows that never change.
 */
export interface NewResponse {
  id: string
  tenant: string
  conversationId: ConversationId
  runId: RunId
  /** The request's body, to the byte. */
  request: string
  details: RequestDetails
}

/** All that is known about a request besides its body. */
export interface RequestDetails {
  model: string
  /** Where it goes; null for the provider's own address. */
  provider: string | null
  message_id: string
  question: string
  workspace_id: string | null
  /** Records of earlier versions lack these three. */
  repository?: string | null
  branch?: string | null
  languages?: string[]
  /** Which files snippets could come from; null for all. */
  rag_scope: RagScope | null
  /** The provider's id of the response that this one goes on from. */
  previous_response_id: string | null
  chain: ChainStep
  /** What the body is made of, and what was left out of it. */
  parts: ContextPart[]
  /** What the provider has from earlier requests of the chain. Records of earlier versions list it among the parts. */
  held?: HeldParts
}

export interface HeldParts {
  parts: number
  tokens: number
}

/**
 * How a request stands to those before it: the first of its line; going on from the last; or the beginning of a new chain, and
 * why.
 */
export type ChainStep = 'first' | 'follow_up' | 'expired' | 'refused' | 'changed' | 'memory' | 'not_kept'

/** A piece of what the model is told. */
export interface ContextPart {
  origin: PartOrigin
  tokens: number
  /** Whether it is in this request's body. */
  sent: boolean
  /** Why it was sent, or left out. */
  why: string
}

export type PartOrigin =
  | { type: 'instructions' }
  | { type: 'tools'; count: number }
  | { type: 'summary' }
  /** The older part of a long history, in one. */
  | { type: 'history'; parts: number }
  | { type: 'message'; role: 'user' | 'assistant'; message_id: string | null }
  | { type: 'tool_call'; tool_call_id: string; name: string }
  | { type: 'tool_output'; tool_call_id: string }
  | { type: 'reasoning' }
  | { type: 'file'; path: string; sha256: string | null; bytes: number }
  | { type: 'chunk'; chunk_id: string; path: string; start_line: number; end_line: number; score: number }
  | { type: 'attachment'; name: string }

export interface ResponseEnd {
  status: 'completed' | 'incomplete' | 'failed' | 'cancelled'
  /** What the provider calls it. */
  providerId: string | null
  /** The provider's own account of it, if it gave one. */
  response: string | null
  usage: { input_tokens: number; output_tokens: number; total_tokens: number } | null
  error: { code: string; message: string } | null
}

export interface StoredResponse {
  id: string
  runId: string
  conversationId: string
  /** The last event before it was asked for. */
  eventNumber: number
  createdAt: string
  details: RequestDetails
  end: (Omit<ResponseEnd, 'response'> & { endedAt: string; eventNumber: number }) | null
}

export interface Responses {
  begin(response: NewResponse, fence: Fence): Promise<void>
  end(id: string, end: ResponseEnd): Promise<void>
  /** Those on the conversation's line, the last first. */
  list(query: ResponsesQuery): Promise<{ items: StoredResponse[]; next: string | null }>
  /** With what was sent and what came back. */
  get(
    tenant: string,
    conversationId: ConversationId,
    id: string,
  ): Promise<StoredResponse & { request: string; response: string | null }>
  /** Where the model's memory was changed on the line, the last first. */
  memories(tenant: string, conversationId: ConversationId): Promise<MemoryMark[]>
}

/** Where the model's memory was changed: what was kept, what was dropped, and the summary. */
export interface MemoryMark {
  eventNumber: number
  checkpoint: Frame<'memory.checkpoint'>['checkpoint']
  summary: string | null
  createdAt: string
}

export interface ResponsesQuery {
  tenant: string
  conversationId: ConversationId
  limit: number
  cursor: string | null
  /** Only those that were asked for up to this event. */
  upTo?: number
}
