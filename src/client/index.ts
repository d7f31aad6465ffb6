import type { SessionImport } from '../protocol/api/agent-sessions.ts'
import type {
  ContextView,
  MemoryView,
  ResponseDetails,
  ResponseList,
  UsageTotal,
  WantMemory,
} from '../protocol/api/context.ts'
import type {
  Conversation,
  ConversationList,
  CreateConversation,
  PatchConversation,
  SearchFilters,
  SearchResults,
} from '../protocol/api/conversations.ts'
import type { EventsPage, MessageList } from '../protocol/api/ledger.ts'
import type {
  BranchList,
  Comparison,
  DeletedConversation,
  DeletedMessage,
  Family,
  Fork,
  Forked,
  Undelete,
  Undeleted,
} from '../protocol/api/lines.ts'
import type { OperationList, Undo, Undone } from '../protocol/api/operations.ts'
import type {
  AcceptedMessage,
  AnswerApproval,
  AttachmentView,
  EditQueued,
  OutputView,
  QuestionView,
  QueueView,
  RuleList,
  SendMessage,
  Stopped,
} from '../protocol/api/runs.ts'
import type { About, AgentList, ModelList, ProjectLink, ProjectList } from '../protocol/api/service.ts'
import type { Stats } from '../protocol/api/stats.ts'
import type { KeepTerminal, Terminal } from '../protocol/api/terminals.ts'
import type { ImportProgress, ImportReport } from '../protocol/api/transfer.ts'
import type { AuditList, Collect, CollectionReport } from '../protocol/api/upkeep.ts'
import type {
  Adopt,
  Adopted,
  Approve,
  Approved,
  BlameView,
  CheckpointDetails,
  CheckpointList,
  Commit,
  Committed,
  DiffView,
  FileEditList,
  FileList,
  FileView,
  Reset,
  ResetDone,
  Restore,
  Restored,
  SessionView,
} from '../protocol/api/work.ts'
import type { Transcript } from '../replay/transcript.ts'
import { readEventStream } from './event-stream.ts'
import { createFeed, type Feed, transcriptAt } from './feed.ts'
import { type ClientOptions, ConnectionError, RequestError, request } from './request.ts'
import { type StreamItem, type StreamOptions, streamLedger } from './stream.ts'
import { followTranscript, type TranscriptOptions } from './transcript.ts'

export type * from '../replay/transcript.ts'
export type { Feed, FeedOptions } from './feed.ts'
export type { ClientOptions } from './request.ts'
export { ConnectionError, RequestError } from './request.ts'
export type { StreamItem, StreamOptions, StreamState } from './stream.ts'

export interface Paging {
  limit?: number
  cursor?: string
}

/** A typed client for a Waymark server. Every method throws a RequestError with the server's code on refusal. */
export interface Client {
  createConversation(body?: CreateConversation, options?: { idempotencyKey?: string }): Promise<Conversation>
  listConversations(query?: Paging & { q?: string }): Promise<ConversationList>
  /** Messages that contain a text, newest first, with excerpts. */
  search(
    query: SearchFilters & { q: string; conversation_id?: string; limit?: number },
  ): Promise<SearchResults>
  conversation(id: string): Promise<Conversation>
  changeConversation(id: string, patch: PatchConversation): Promise<Conversation>
  deleteConversation(id: string): Promise<DeletedConversation>
  /** Creates a conversation with this one's history, up to an event or just before a message. */
  fork(id: string, body?: Fork, options?: { idempotencyKey?: string }): Promise<Forked>
  branches(id: string): Promise<BranchList>
  /** The whole family: the root and all conversations forked from it. */
  tree(id: string): Promise<Family>
  /** Removes a person's message and everything after it from the line; the files stay unchanged. */
  deleteMessage(id: string, messageId: string): Promise<DeletedMessage>
  /** Undoes a deletion of a message; without a message, restores a deleted conversation. */
  undelete(id: string, body?: Undelete): Promise<Undeleted>
  compare(id: string, other: string, query?: { limit?: number; diff?: boolean }): Promise<Comparison>
  /** The model's responses along the line, newest first. */
  responses(id: string, query?: Paging): Promise<ResponseList>
  response(id: string, responseId: string): Promise<ResponseDetails>
  /** The tokens of all model requests along the line. */
  usage(id: string): Promise<UsageTotal>
  /** The model's context at an event: the last request up to there, by origin and tokens. */
  context(id: string, query?: { at?: number | undefined }): Promise<ContextView>
  /** The memory strategy and its limit, and where it was applied. */
  memory(id: string): Promise<MemoryView>
  /** Shortens the model's memory with the next message. */
  shortenMemory(id: string, body: WantMemory): Promise<MemoryView>
  /** Lets the model see everything again. */
  undoMemory(id: string): Promise<MemoryView>
  /** Removes data that no conversation reaches; for admins. */
  collect(body?: Collect): Promise<CollectionReport>
  /** Exports the whole family as one portable tar archive. */
  export(id: string): Promise<ReadableStream<Uint8Array>>
  /** Imports an exported archive. */
  /** Imports a session of another agent, as lines of JSON: the head, then the entries. */
  importSession(lines: ReadableStream<Uint8Array>): Promise<SessionImport>
  import(
    archive: ReadableStream | Blob,
    options?: { onProgress?(progress: ImportProgress): void },
  ): Promise<ImportReport>
  /** The log of deletions; for admins. */
  audit(query?: Paging): Promise<AuditList>
  /** A page of the ledger: after a cursor, or the one that ends just before an event. */
  events(id: string, query?: Paging & { before?: number | undefined }): Promise<EventsPage>
  /** Describes the server, and what the token may do on it. */
  about(): Promise<About>
  /** The projects of the server's process. */
  projects(): Promise<ProjectList>
  /** A link that signs one browser in to another project of the process. */
  projectLink(projectId: string): Promise<ProjectLink>
  /** The models that a conversation can choose from. */
  models(): Promise<ModelList>
  /** The hosted agents that conversations can choose. */
  agents(): Promise<AgentList>
  /** Records an agent that runs in its own terminal; repeat it while the agent runs. */
  keepTerminal(id: string, body: KeepTerminal): Promise<Terminal>
  /** The agent in the terminal has ended. */
  endTerminal(id: string): Promise<Terminal>
  /** Null when the server can read and write; otherwise the reason why not. */
  notReady(): Promise<string | null>
  messages(id: string, query?: Paging): Promise<MessageList>
  /** Adds a message to the queue; a repeated request with the same key is accepted once. */
  sendMessage(
    id: string,
    message: SendMessage,
    options?: { idempotencyKey?: string },
  ): Promise<AcceptedMessage>
  /** A text attached to a message. */
  attachment(id: string, sha256: string): Promise<AttachmentView>
  /** Commits the last approved files to the user's repository. */
  commit(id: string, body: Commit): Promise<Committed>
  /** Who wrote each line of a file. */
  blame(id: string, path: string): Promise<BlameView>
  stats(query?: { since?: string; until?: string; conversation_id?: string }): Promise<Stats>
  operations(query?: { limit?: number; cursor?: string; conversation_id?: string }): Promise<OperationList>
  undo(body: Undo): Promise<Undone>
  redo(body: Undo): Promise<Undone>
  /** The full output of a tool. */
  output(id: string, toolCallId: string): Promise<OutputView>
  queue(id: string): Promise<QueueView>
  /** Removes a waiting message from the queue. */
  removeQueued(id: string, runId: string): Promise<void>
  /** Changes or moves a waiting message. */
  editQueued(id: string, runId: string, body: EditQueued): Promise<QueueView>
  cancelRun(id: string, runId: string): Promise<void>
  /** Stops the current run, if any, and returns its id. The queue continues. */
  stop(id: string): Promise<Stopped>
  /** The whole call that a tool waits for permission to run. */
  question(id: string, runId: string, toolCallId: string): Promise<QuestionView>
  /** Calls that are allowed without asking. */
  rules(): Promise<RuleList>
  removeRule(ruleId: string): Promise<void>
  /** Answers a tool's question; an approval must name the question. */
  answerApproval(id: string, runId: string, answer: AnswerApproval): Promise<void>
  /** The work session: what has changed since the last approval. */
  session(id: string): Promise<SessionView>
  approve(id: string, body?: Approve, options?: { idempotencyKey?: string }): Promise<Approved>
  reset(id: string, body?: Reset, options?: { idempotencyKey?: string }): Promise<ResetDone>
  restore(id: string, body: Restore, options?: { idempotencyKey?: string }): Promise<Restored>
  /** Merges the files of another conversation's working copy. */
  adopt(id: string, body: Adopt, options?: { idempotencyKey?: string }): Promise<Adopted>
  checkpoints(id: string, query?: Paging): Promise<CheckpointList>
  checkpoint(id: string, checkpointId: string): Promise<CheckpointDetails>
  edits(id: string, query?: Paging & { path?: string }): Promise<FileEditList>
  /** The files at an event, or the current files. */
  files(
    id: string,
    query?: { at?: number | undefined; q?: string | undefined; limit?: number },
  ): Promise<FileList>
  file(id: string, query: { path: string; at?: number | undefined }): Promise<FileView>
  /** Default `from`: the last approval; default `to`: the current files. */
  diff(
    id: string,
    query?: { from?: string | undefined; to?: string | undefined; path?: string | undefined },
  ): Promise<DiffView>
  /** Frames in the batches in which they arrive; reconnects automatically. */
  stream(id: string, options?: StreamOptions): AsyncGenerator<StreamItem[]>
  /** The transcript as it grows; reconnects automatically. */
  transcript(id: string, options?: TranscriptOptions): AsyncGenerator<Transcript>
  /** The transcript, read from its end: for showing conversations of any length. */
  feed(id: string): Feed
  /** The transcript at an event; only its end if it is long. */
  transcriptAt(id: string, at: number, options?: { signal?: AbortSignal }): Promise<Transcript>
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
        headers: keyHeader(idempotencyKey),
      }),
    listConversations: (query = {}) => json('/conversations', { query: { ...query } }),
    search: (query) => json('/search', { query: { ...query } }),
    conversation: (id) => json(one(id)),
    changeConversation: (id, patch) => json(one(id), { method: 'PATCH', body: patch }),
    deleteConversation: (id) => json(one(id), { method: 'DELETE' }),
    fork: (id, body = {}, { idempotencyKey } = {}) =>
      json(`${one(id)}/fork`, { method: 'POST', body, headers: keyHeader(idempotencyKey) }),
    branches: (id) => json(`${one(id)}/branches`),
    tree: (id) => json(`${one(id)}/tree`),
    deleteMessage: (id, messageId) =>
      json(`${one(id)}/messages/${encodeURIComponent(messageId)}`, { method: 'DELETE' }),
    undelete: (id, body = {}) => json(`${one(id)}/undelete`, { method: 'POST', body }),
    compare: (id, other, { limit, diff } = {}) =>
      json(`${one(id)}/compare/${encodeURIComponent(other)}`, {
        query: { limit, diff: diff === undefined ? undefined : String(diff) },
      }),
    responses: (id, query = {}) => json(`${one(id)}/responses`, { query: { ...query } }),
    response: (id, responseId) => json(`${one(id)}/responses/${encodeURIComponent(responseId)}`),
    context: (id, query = {}) => json(`${one(id)}/context`, { query: { ...query } }),
    usage: (id) => json(`${one(id)}/usage`),
    memory: (id) => json(`${one(id)}/memory`),
    shortenMemory: (id, body) => json(`${one(id)}/memory`, { method: 'POST', body }),
    undoMemory: (id) => json(`${one(id)}/memory/undo`, { method: 'POST' }),
    collect: (body = {}) => json('/gc', { method: 'POST', body }),
    async export(id) {
      const { body } = await request(client, `${one(id)}/export`)
      if (!body) throw new Error('the response has no body')
      return body
    },
    async import(archive, { onProgress } = {}) {
      const headers = { 'Content-Type': 'application/x-tar', Accept: 'text/event-stream' }
      const response = await request(client, '/import', { method: 'POST', stream: archive, headers })
      for await (const events of readEventStream(response)) {
        for (const { event, data } of events) {
          const body = JSON.parse(data)
          if (event === 'progress') onProgress?.(body)
          if (event === 'problem') throw new RequestError(body.status, body)
          if (event === 'imported') return body
        }
      }
      throw new ConnectionError(client.url, new Error('the connection closed before the import ended'))
    },
    async importSession(lines) {
      const headers = { 'Content-Type': 'application/x-ndjson' }
      const response = await request(client, '/sessions', { method: 'POST', stream: lines, headers })
      return (await response.json()) as SessionImport
    },
    audit: (query = {}) => json('/audit', { query: { ...query } }),
    about: () => json('/about'),
    projects: () => json('/projects'),
    projectLink: (projectId) => json(`/projects/${encodeURIComponent(projectId)}/link`, { method: 'POST' }),
    models: () => json('/models'),
    agents: () => json('/agents'),
    keepTerminal: (id, body) => json(`/terminals/${encodeURIComponent(id)}`, { method: 'PUT', body }),
    endTerminal: (id) => json(`/terminals/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    async notReady() {
      const response = await (client.fetch ?? fetch)(`${client.url}/api/v1/ready`).catch((cause: unknown) => {
        throw new ConnectionError(client.url, cause)
      })
      const { status } = (await response.json()) as { status: string }
      return response.ok ? null : status
    },
    events: (id, query = {}) => json(`${one(id)}/ledger/events`, { query: { ...query } }),
    messages: (id, query = {}) => json(`${one(id)}/messages`, { query: { ...query } }),
    sendMessage: (id, message, { idempotencyKey } = {}) =>
      json(`${one(id)}/messages`, { method: 'POST', body: message, headers: keyHeader(idempotencyKey) }),
    attachment: (id, sha256) => json(`${one(id)}/attachments/${encodeURIComponent(sha256)}`),
    commit: (id, body) => json(`${one(id)}/commit`, { method: 'POST', body }),
    stats: (query = {}) => json('/stats', { query: { ...query } }),
    operations: (query = {}) => json('/operations', { query: { ...query } }),
    undo: (body) => json('/operations/undo', { method: 'POST', body }),
    redo: (body) => json('/operations/redo', { method: 'POST', body }),
    blame: (id, path) => json(`${one(id)}/blame`, { query: { path } }),
    output: (id, toolCallId) => json(`${one(id)}/outputs/${encodeURIComponent(toolCallId)}`),
    queue: (id) => json(`${one(id)}/queue`),
    editQueued: (id, runId, body) =>
      json(`${one(id)}/queue/${encodeURIComponent(runId)}`, { method: 'PATCH', body }),
    async removeQueued(id, runId) {
      await request(client, `${one(id)}/queue/${encodeURIComponent(runId)}`, { method: 'DELETE' })
    },
    async cancelRun(id, runId) {
      await request(client, `${one(id)}/runs/${encodeURIComponent(runId)}/cancel`, { method: 'POST' })
    },
    stop: (id) => json(`${one(id)}/stop`, { method: 'POST' }),
    async answerApproval(id, runId, answer) {
      const path = `${one(id)}/runs/${encodeURIComponent(runId)}/approvals`
      await request(client, path, { method: 'POST', body: answer })
    },
    question: (id, runId, toolCallId) =>
      json(`${one(id)}/runs/${encodeURIComponent(runId)}/approvals/${encodeURIComponent(toolCallId)}`),
    rules: () => json('/rules'),
    async removeRule(ruleId) {
      await request(client, `/rules/${encodeURIComponent(ruleId)}`, { method: 'DELETE' })
    },
    session: (id) => json(`${one(id)}/session`),
    approve: (id, body = {}, { idempotencyKey } = {}) =>
      json(`${one(id)}/approve`, { method: 'POST', body, headers: keyHeader(idempotencyKey) }),
    reset: (id, body = {}, { idempotencyKey } = {}) =>
      json(`${one(id)}/reset`, { method: 'POST', body, headers: keyHeader(idempotencyKey) }),
    restore: (id, body, { idempotencyKey } = {}) =>
      json(`${one(id)}/restore`, { method: 'POST', body, headers: keyHeader(idempotencyKey) }),
    adopt: (id, body, { idempotencyKey } = {}) =>
      json(`${one(id)}/adopt`, { method: 'POST', body, headers: keyHeader(idempotencyKey) }),
    checkpoints: (id, query = {}) => json(`${one(id)}/checkpoints`, { query: { ...query } }),
    checkpoint: (id, checkpointId) => json(`${one(id)}/checkpoints/${encodeURIComponent(checkpointId)}`),
    edits: (id, query = {}) => json(`${one(id)}/edits`, { query: { ...query } }),
    files: (id, query = {}) => json(`${one(id)}/files`, { query: { ...query } }),
    file: (id, query) => json(`${one(id)}/files/text`, { query: { ...query } }),
    diff: (id, query = {}) => json(`${one(id)}/diff`, { query: { ...query } }),
    stream: (id, streamOptions) => streamLedger(client, encodeURIComponent(id), streamOptions),
    transcript: (id, streamOptions) => followTranscript(client, encodeURIComponent(id), streamOptions),
    feed: (id) => createFeed(client, encodeURIComponent(id)),
    transcriptAt: (id, at, { signal } = {}) => transcriptAt(client, encodeURIComponent(id), at, signal),
  }
}

function keyHeader(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { 'Idempotency-Key': key }
}
