import type { Frame } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'
import type { Fence } from './agent-states.ts'
import type { RagScope } from './retrieval.ts'

/**
 * One round trip to the model (C1). The request is stored before it is sent, the response when it has ended: two rows
 * that never change.
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

/** Everything known about a request besides its body. */
export interface RequestDetails {
  model: string
  /** The provider's base URL; null for its default. */
  provider: string | null
  message_id: string
  question: string
  workspace_id: string | null
  /** Records of earlier versions lack these three. */
  repository?: string | null
  branch?: string | null
  languages?: string[]
  /** Limits which files snippets could come from; null for all. */
  rag_scope: RagScope | null
  /** The provider's id of the response that this one continues. */
  previous_response_id: string | null
  chain: ChainStep
  /** The parts of the body, and those left out of it. */
  parts: ContextPart[]
  /** Parts that the provider holds from earlier requests of the chain. Earlier versions list them in `parts`. */
  held?: HeldParts
}

export interface HeldParts {
  parts: number
  tokens: number
}

/** How a request relates to earlier ones: the first of its line, a follow-up, or the start of a new chain and why. */
export type ChainStep = 'first' | 'follow_up' | 'expired' | 'refused' | 'changed' | 'memory' | 'not_kept'

/** A part of the model's context. */
export interface ContextPart {
  origin: PartOrigin
  tokens: number
  /** True if it is in this request's body. */
  sent: boolean
  /** Why it was sent, or left out. */
  why: string
}

export type PartOrigin =
  | { type: 'instructions' }
  | { type: 'tools'; count: number }
  | { type: 'summary' }
  /** The older part of a long history, as one part. */
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
  /** The provider's id of the response. */
  providerId: string | null
  /** The response as the provider returned it, if it did. */
  response: string | null
  usage: {
    input_tokens: number
    output_tokens: number
    total_tokens: number
    cached_tokens?: number
    cost?: number
  } | null
  error: { code: string; message: string } | null
}

export interface StoredResponse {
  id: string
  runId: string
  conversationId: string
  /** The last event before the request. */
  eventNumber: number
  createdAt: string
  details: RequestDetails
  end: (Omit<ResponseEnd, 'response'> & { endedAt: string; eventNumber: number }) | null
}

export interface Responses {
  begin(response: NewResponse, fence: Fence): Promise<void>
  end(id: string, end: ResponseEnd): Promise<void>
  /** Responses on the conversation's line, newest first. */
  list(query: ResponsesQuery): Promise<{ items: StoredResponse[]; next: string | null }>
  /** The usage of every request on the line, added up. */
  usage(tenant: string, conversationId: ConversationId): Promise<LineUsage>
  /** Includes the request and the response body. */
  get(
    tenant: string,
    conversationId: ConversationId,
    id: string,
  ): Promise<StoredResponse & { request: string; response: string | null }>
  /** Changes to the model's memory on the line, newest first. */
  memories(tenant: string, conversationId: ConversationId): Promise<MemoryMark[]>
}

export interface LineUsage {
  requests: number
  input: number
  output: number
  cached: number
  /** Null when no provider reported any. */
  cost: number | null
}

/** A change to the model's memory: what was kept, what was dropped, and the summary. */
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
  /** Only responses requested up to this event. */
  upTo?: number
}
