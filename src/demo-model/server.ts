import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type ChatBody, chatChunks, itemsOfChat } from './chat-protocol.ts'
import { flawOf, itemsOfMessages, type MessagesBody, messageEvents } from './messages-protocol.ts'
import { createPromptCache, messageBlocks } from './prompt-cache.ts'
import { type ModelResponse, newItemId, responseEvents } from './response-events.ts'
import {
  type Fault,
  type InputItem,
  questionIn,
  type Reply,
  replyTo,
  SCRIPTED_FAILURE,
  tokensOf,
} from './script.ts'

export interface DemoModel {
  /** The base URL for the SDK. */
  url: string
  close(): Promise<void>
}

export interface DemoModelOptions {
  port?: number
  /** How long requests can continue from a response. */
  expiryMs?: number
  /** Called with the body of every request to a model. */
  onRequest?(path: string, body: string): void
  /** Paths that this server lacks, such as `/v1/responses`: real servers speak one protocol or two. */
  without?: readonly string[]
}

export const DEMO_MODEL = 'demo'

const DAY_MS = 24 * 60 * 60 * 1000
/** When there are more, the oldest are dropped first. */
const MAX_STORED = 500
const MAX_BODY_BYTES = 64 * 1024 * 1024
/** Without a wait between words, events leave in packets of this size, as a fast provider's do. */
const PACKET_CHARACTERS = 4096

interface StoredResponse {
  response: ModelResponse
  /** The items that this round trip added. */
  items: InputItem[]
  previous: StoredResponse | null
  expiresAt: number
}

/** All items up to this response, oldest first. */
function itemsUpTo(last: StoredResponse | null): InputItem[] {
  const parts: InputItem[][] = []
  for (let at = last; at; at = at.previous) parts.push(at.items)
  return parts.toReversed().flat()
}

interface ResponsesBody {
  model?: string
  instructions?: string
  input?: string | InputItem[]
  tools?: unknown[]
  previous_response_id?: string | null
  store?: boolean
  stream?: boolean
  text?: unknown
}

/** The fields of the object that a request wants as its answer; null when it wants text. */
function requiredFields(text: unknown): string[] | null {
  const { format } = (text ?? {}) as { format?: { type?: string; schema?: { required?: string[] } } }
  return format?.type === 'json_schema' ? (format.schema?.required ?? []) : null
}

function titleReply(words: string): Reply {
  return { step: { type: 'say', words: [words], reasoning: [] }, waitMs: 0 }
}

/** A small scripted model that speaks every protocol we do, for trying everything without a key. */
export async function startDemoModel(options: DemoModelOptions = {}): Promise<DemoModel> {
  const { port = 0, expiryMs = 30 * DAY_MS, without = [] } = options
  const stored = new Map<string, StoredResponse>()
  const cache = createPromptCache()
  const faults = createFaultCounts()

  async function bodyOf<T>(request: IncomingMessage): Promise<T | null> {
    const text = await readBody(request)
    if (text === null) return null
    options.onRequest?.(request.url ?? '', text)
    try {
      return JSON.parse(text) as T
    } catch {
      return null
    }
  }

  function find(id: string): StoredResponse | null {
    const found = stored.get(id)
    if (found && found.expiresAt > Date.now()) return found
    stored.delete(id)
    return null
  }

  /** The reply to these items, counting its fault if it is one. */
  function reply(items: readonly InputItem[], body: { tools?: unknown[]; text?: unknown }): Reply {
    const question = questionIn(items)
    // An agent also asks for titles and summaries: such a request offers no tools or wants an object, and directs nothing.
    const fields = requiredFields(body.text)
    if (fields)
      return titleReply(JSON.stringify(Object.fromEntries(fields.map((field) => [field, 'A title']))))
    const next = replyTo(items, faults.of(question))
    if (next.step.type === 'calls' && (body.tools ?? []).length === 0) return titleReply('A title')
    if (isFault(next.step)) faults.add(question)
    return next
  }

  async function createResponse(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await bodyOf<ResponsesBody>(request)
    if (!body) return refuse(answer, 400, 'invalid_json', 'The body is not JSON.')
    const previousId = body.previous_response_id ?? null
    const previous = previousId === null ? null : find(previousId)
    if (previousId !== null && !previous) {
      const message = `Previous response with id '${previousId}' not found.`
      return refuse(answer, 404, 'previous_response_not_found', message, 'previous_response_id')
    }
    const given: InputItem[] =
      typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : (body.input ?? [])
    const items = [...itemsUpTo(previous), ...given]
    const { step, waitMs } = reply(items, body)
    if (refuses(answer, step)) return
    const response: ModelResponse = {
      id: newItemId('resp'),
      object: 'response',
      created_at: Math.floor(Date.now() / 1000),
      status: 'in_progress',
      model: body.model ?? DEMO_MODEL,
      output: [],
      previous_response_id: previousId,
      error: null,
      incomplete_details: null,
      usage: null,
    }
    const usage = cache.count([body.instructions ?? null, body.tools ?? [], ...items], null)
    const events = responseEvents(response, step, usage)
    if (body.stream) await sendStream(answer, events, { step, waitMs, isNamed: true })
    else {
      for (const _ of events);
      sendJson(answer, 200, response)
    }
    if (body.store === false || response.status !== 'completed') return
    forgetOld(stored)
    stored.set(response.id, {
      response,
      items: [...given, ...(response.output as InputItem[])],
      previous,
      expiresAt: Date.now() + expiryMs,
    })
  }

  async function createChat(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await bodyOf<ChatBody>(request)
    if (!body?.stream)
      return refuse(answer, 400, 'invalid_request', 'The body must be JSON with stream: true.')
    const { step, waitMs } = reply(itemsOfChat(body), body)
    if (refuses(answer, step)) return
    const usage = cache.count([body.tools ?? [], ...(body.messages ?? [])], null)
    await sendStream(answer, chatChunks(body, step, usage), { step, waitMs, end: 'data: [DONE]\n\n' })
  }

  async function createMessage(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await bodyOf<MessagesBody>(request)
    const flaw = body ? flawOf(body) : 'The body is not JSON.'
    if (!body || flaw !== null) return refuseMessage(answer, 400, 'invalid_request_error', flaw ?? '')
    const { step, waitMs } = reply(itemsOfMessages(body), body)
    if (step.type === 'fail' && step.status !== null) {
      const type =
        step.status === 429 ? 'rate_limit_error' : step.status === 529 ? 'overloaded_error' : 'api_error'
      return refuseMessage(answer, step.status, type, failureOf(answer, step.status))
    }
    const { blocks, marked } = messageBlocks(body)
    const events = messageEvents(body, step, cache.count(blocks, marked))
    await sendStream(answer, events, { step, waitMs, isNamed: true })
  }

  async function countTokens(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { blocks } = messageBlocks((await bodyOf<MessagesBody>(request)) ?? {})
    sendJson(answer, 200, { input_tokens: tokensOf(blocks) })
  }

  const posts: Record<string, (request: IncomingMessage, answer: ServerResponse) => Promise<void>> = {
    '/v1/responses': createResponse,
    '/v1/chat/completions': createChat,
    '/v1/messages': createMessage,
    '/v1/messages/count_tokens': countTokens,
  }

  async function handle(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://demo').pathname
    if (without.includes(path)) return void answer.writeHead(404).end('404 page not found')
    const post = Object.hasOwn(posts, path) ? posts[path] : undefined
    if (request.method === 'POST' && post) return await post(request, answer)
    if (request.method === 'GET' && path === '/v1/models') return sendJson(answer, 200, modelList)
    const id = /^\/v1\/responses\/([\w-]+)$/.exec(path)?.[1]
    const found = id === undefined ? null : find(id)
    if (!found) return refuse(answer, 404, 'not_found', 'Not found.')
    if (request.method === 'DELETE') stored.delete(found.response.id)
    sendJson(answer, 200, found.response)
  }

  const server = createServer((request, answer) => {
    handle(request, answer).catch((error: unknown) => {
      if (answer.headersSent) answer.destroy()
      else refuse(answer, 500, 'internal', (error as Error).message)
    })
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** In a form that both SDKs read. */
const modelList = {
  object: 'list',
  data: [{ id: DEMO_MODEL, object: 'model', type: 'model', display_name: 'Demo model', owned_by: 'waymark' }],
  has_more: false,
}

const MOST_COUNTED = 1000

/** How many faults each message has caused. */
function createFaultCounts() {
  const counts = new Map<string, number>()
  return {
    of: (question: string) => counts.get(question) ?? 0,
    add(question: string): void {
      if (counts.size > MOST_COUNTED) counts.clear()
      counts.set(question, (counts.get(question) ?? 0) + 1)
    },
  }
}

function isFault(step: Reply['step']): step is Fault {
  return step.type === 'fail' || step.type === 'hang' || step.type === 'break'
}

interface StreamOptions {
  step: Reply['step']
  waitMs: number
  /** True if each event has its name on a line of its own. */
  isNamed?: boolean
  /** Sent after the last event. */
  end?: string
}

async function sendStream(
  answer: ServerResponse,
  events: Iterable<object>,
  options: StreamOptions,
): Promise<void> {
  const { step, waitMs, isNamed = false, end = '' } = options
  answer.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' })
  const gone = new AbortController()
  answer.once('close', () => gone.abort())
  let packet = ''
  for (const event of events) {
    const name = isNamed && 'type' in event ? `event: ${String(event.type)}\n` : ''
    packet += `${name}data: ${JSON.stringify(event)}\n\n`
    if (waitMs === 0 && packet.length < PACKET_CHARACTERS) continue
    if (gone.signal.aborted) return
    if (!answer.write(packet)) await once(answer, 'drain', { signal: gone.signal }).catch(() => {})
    packet = ''
    if (waitMs > 0 && isDelta(event))
      await setTimeout(waitMs, undefined, { signal: gone.signal }).catch(() => {})
  }
  if (step.type !== 'hang' && step.type !== 'break') return void answer.end(packet + end)
  // Flush the words before the connection breaks; one that hangs stays open until the client closes it.
  await new Promise((resolve) => answer.write(packet, resolve))
  if (step.type === 'break') answer.destroy()
}

function isDelta(event: object): boolean {
  return 'choices' in event || ('type' in event && String(event.type).endsWith('delta'))
}

async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Refuses the request if the script says so. */
function refuses(answer: ServerResponse, step: Reply['step']): boolean {
  if (step.type !== 'fail' || step.status === null) return false
  refuse(answer, step.status, 'demo_failure', failureOf(answer, step.status))
  return true
}

/** Some servers repeat a key that they refuse. */
function failureOf({ req: { headers } }: ServerResponse, status: number): string {
  const key = headers['x-api-key'] ?? headers.authorization
  return status === 401 && key !== undefined
    ? `${SCRIPTED_FAILURE} Incorrect API key: ${String(key)}`
    : SCRIPTED_FAILURE
}

function refuse(
  answer: ServerResponse,
  status: number,
  code: string,
  message: string,
  param: string | null = null,
): void {
  sendJson(answer, status, { error: { message, type: 'invalid_request_error', param, code } })
}

function refuseMessage(answer: ServerResponse, status: number, type: string, message: string): void {
  sendJson(answer, status, { type: 'error', error: { type, message } })
}

function sendJson(answer: ServerResponse, status: number, body: unknown): void {
  const headers = { 'Content-Type': 'application/json', ...(status === 429 ? { 'Retry-After': '1' } : {}) }
  answer.writeHead(status, headers).end(JSON.stringify(body))
}

/** Stops at the first response that may stay, because the map is in the order of creation and so of expiry. */
function forgetOld(stored: Map<string, StoredResponse>): void {
  const now = Date.now()
  for (const [id, { expiresAt }] of stored) {
    if (expiresAt > now && stored.size < MAX_STORED) return
    stored.delete(id)
  }
}
