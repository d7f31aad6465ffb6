import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type ModelResponse, newItemId, responseEvents } from './response-events.ts'
import { type InputItem, replyTo } from './script.ts'

export interface DemoModel {
  /** What the SDK takes as its base URL. */
  url: string
  close(): Promise<void>
}

export interface DemoModelOptions {
  port?: number
  /** How long a response can be gone on from. */
  expiryMs?: number
}

export const DEMO_MODEL = 'demo'

const DAY_MS = 24 * 60 * 60 * 1000
/** The oldest go first. */
const MAX_STORED = 500
const MAX_BODY_BYTES = 64 * 1024 * 1024
/** Without a wait between words, events leave in packets of this size, as a fast provider's do. */
const PACKET_CHARACTERS = 4096

interface StoredResponse {
  response: ModelResponse
  /** What this round trip has added. */
  items: InputItem[]
  previous: StoredResponse | null
  expiresAt: number
}

/** Everything up to this response, the oldest first. */
function itemsUpTo(last: StoredResponse | null): InputItem[] {
  const parts: InputItem[][] = []
  for (let at = last; at; at = at.previous) parts.push(at.items)
  return parts.toReversed().flat()
}

interface RequestBody {
  model?: string
  input?: string | InputItem[]
  previous_response_id?: string | null
  store?: boolean
  stream?: boolean
}

/** A small scripted model that serves a real `/v1/responses`, for trying everything without a key. */
export async function startDemoModel(options: DemoModelOptions = {}): Promise<DemoModel> {
  const { port = 0, expiryMs = 30 * DAY_MS } = options
  const stored = new Map<string, StoredResponse>()

  function find(id: string): StoredResponse | null {
    const found = stored.get(id)
    if (found && found.expiresAt > Date.now()) return found
    stored.delete(id)
    return null
  }

  async function create(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await readBody(request)
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
    const { step, waitMs } = replyTo(items)
    if (step.type === 'fail' && step.status !== null) {
      return refuse(answer, step.status, 'demo_failure', 'The demo model was told to fail.')
    }
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
    const events = responseEvents(response, step, items)
    if (body.stream) await sendStream(answer, events, waitMs)
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

  async function handle(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://demo').pathname
    if (request.method === 'POST' && path === '/v1/responses') return await create(request, answer)
    if (request.method === 'GET' && path === '/v1/models') {
      return sendJson(answer, 200, { object: 'list', data: [{ id: DEMO_MODEL, object: 'model' }] })
    }
    const id = /^\/v1\/responses\/([\w-]+)$/.exec(path)?.[1]
    const found = id === undefined ? null : find(id)
    if (!found) return refuse(answer, 404, 'not_found', 'There is no such thing.')
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

async function sendStream(
  answer: ServerResponse,
  events: Iterable<{ type: string }>,
  waitMs: number,
): Promise<void> {
  answer.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' })
  const gone = new AbortController()
  answer.once('close', () => gone.abort())
  let packet = ''
  for (const event of events) {
    packet += `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
    if (waitMs === 0 && packet.length < PACKET_CHARACTERS) continue
    if (gone.signal.aborted) return
    if (!answer.write(packet)) await once(answer, 'drain', { signal: gone.signal }).catch(() => {})
    packet = ''
    if (waitMs > 0 && event.type.endsWith('.delta')) {
      await setTimeout(waitMs, undefined, { signal: gone.signal }).catch(() => {})
    }
  }
  answer.end(packet)
}

async function readBody(request: IncomingMessage): Promise<RequestBody | null> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) return null
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString()) as RequestBody
  } catch {
    return null
  }
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

function sendJson(answer: ServerResponse, status: number, body: unknown): void {
  answer.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** They are kept in the order in which they were made, which is the order in which they expire. */
function forgetOld(stored: Map<string, StoredResponse>): void {
  const now = Date.now()
  for (const [id, { expiresAt }] of stored) {
    if (expiresAt > now && stored.size < MAX_STORED) return
    stored.delete(id)
  }
}
