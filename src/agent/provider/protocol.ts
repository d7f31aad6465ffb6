import type {
  FunctionTool,
  ResponseCreateParamsStreaming,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses'
import type { ModelItem } from '../../core/request-plan.ts'

/** The wire protocols that model servers speak. Adding one is a file and a line in `protocols.ts`. */
export type ProtocolName = 'responses' | 'chat-completions' | 'anthropic'

/** A request before a protocol turns it into a body. Its items have the form of the Responses API. */
export interface ModelRequest {
  model: string
  instructions?: string
  temperature?: number
  input: readonly ModelItem[]
  tools?: FunctionTool[]
  store?: boolean
  previous_response_id?: string
}

export interface Protocol {
  name: ProtocolName
  /** The path after the base URL, for error messages. */
  path: string
  /** True if a request can continue from a stored response. */
  hasChains: boolean
  /** The item as a request would include it; null if this protocol can't send it back. */
  sendable(item: ModelItem): ModelItem | null
  /** The body of a request, exactly as it is sent (C1). */
  bodyOf(request: ModelRequest): object
  /** Loads the SDK, which takes a tenth of a second. */
  open(server: ModelServerAddress): Promise<ProtocolClient>
}

export interface ModelServerAddress {
  /** Null for the SDK's default. */
  baseUrl: string | null
  apiKey: string | null
}

export interface ProtocolClient {
  /** Sends a body and returns the answer as events of the Responses API, which the frame mapper reads. */
  stream(body: object, request: typeof fetch): Promise<AsyncIterable<ResponseStreamEvent>>
}

/** The body of a Responses request. */
export type ResponsesBody = ResponseCreateParamsStreaming
