import type {
  Conversation,
  ConversationList,
  CreateConversation,
  EventsPage,
  MessageList,
  PatchConversation,
} from '../protocol/api.ts'
import type { Transcript } from '../replay/transcript.ts'
import { type ClientOptions, request } from './request.ts'
import { type StreamItem, type StreamOptions, streamLedger } from './stream.ts'
import { followTranscript } from './transcript.ts'

export type { ClientOptions } from './request.ts'
export { ConnectionError, RequestError } from './request.ts'
export type { StreamItem, StreamOptions, StreamState } from './stream.ts'

export interface Paging {
  limit?: number
  cursor?: string
}

/** A Waymark server, typed. Every method throws a RequestError with the server's code when it is refused. */
export interface Client {
  createConversation(body?: CreateConversation, options?: { idempotencyKey?: string }): Promise<Conversation>
  listConversations(query?: Paging & { q?: string }): Promise<ConversationList>
  conversation(id: string): Promise<Conversation>
  changeConversation(id: string, patch: PatchConversation): Promise<Conversation>
  deleteConversation(id: string): Promise<void>
  events(id: string, query?: Paging): Promise<EventsPage>
  messages(id: string, query?: Paging): Promise<MessageList>
  /** Frames as they come, in lots; reconnects by itself. */
  stream(id: string, options?: StreamOptions): AsyncGenerator<StreamItem[]>
  /** The transcript as it grows; reconnects by itself. */
  transcript(id: string, options?: Omit<StreamOptions, 'cursor'>): AsyncGenerator<Transcript>
}

export function createClient(options: ClientOptions): Client {
  const client = { ...options, url: options.url.replace(/\/+$/, '').replace(/\/api\/v1$/, '') }
  const json = async <T>(...args: [path: string, init?: Parameters<typeof request>[2]]) =>
    (await (await request(client, ...args)).json()) as T
  const one = (id: string) => `/conversations/${encodeURIComponent(id)}`

  return {
    createConversation: (body = {}, { idempotencyKey } = {}) =>
      json('/conversations', {
        method: 'POST',
        body,
        headers: idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey },
      }),
    listConversations: (query = {}) => json('/conversations', { query: { ...query } }),
    conversation: (id) => json(one(id)),
    changeConversation: (id, patch) => json(one(id), { method: 'PATCH', body: patch }),
    async deleteConversation(id) {
      await request(client, one(id), { method: 'DELETE' })
    },
    events: (id, query = {}) => json(`${one(id)}/ledger/events`, { query: { ...query } }),
    messages: (id, query = {}) => json(`${one(id)}/messages`, { query: { ...query } }),
    stream: (id, streamOptions) => streamLedger(client, encodeURIComponent(id), streamOptions),
    transcript: (id, streamOptions) => followTranscript(client, encodeURIComponent(id), streamOptions),
  }
}
