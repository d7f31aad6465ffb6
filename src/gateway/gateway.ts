import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { ProtocolName } from '../agent/provider/protocol.ts'
import type { Log } from '../core/log.ts'
import { isSecretKey } from '../core/redact.ts'
import { forward, passedOn } from '../outbound/forward.ts'
import { type Answer, createTap, type Exchange, type Tap } from './exchange.ts'

/**
 * Passes the requests of agents on to their model servers, unchanged in both directions, and gives an observer a copy. The
 * agent's stream comes first: an observer that fails or is slow changes nothing about it.
 */
export interface Gateway {
  serve(request: IncomingMessage, response: ServerResponse): Promise<void>
}

/** The access that a key grants: the servers that its agent may reach, and the observer of its requests. */
export interface GatewayAccess {
  /** Origins by name, such as `openai`. */
  upstreams: Readonly<Record<string, string>>
  /** Resolves when the files are saved, so that the agent may go on to change them. */
  observe(exchange: Exchange): Promise<void> | undefined
}

/** The header that carries our key, where it is not in the path. */
export const KEY_HEADER = 'x-waymark-key'
const OUR_HEADERS = 'x-waymark-'
/** Ids by which agents name their sessions: Codex, Claude Code, opencode. */
const SESSION_HEADERS = ['session-id', 'session_id', 'x-claude-code-session-id', 'x-session-id']
const MAX_SESSION_ID = 200
/** A shorter value may be an ordinary word. */
const MIN_CREDENTIAL = 8
/** How long a call may wait for the files to be saved. Text never waits. */
const HOLD_MS = 1000
/** Observers read a request after this delay, so that they don't slow it down, or the first bytes of its answer. */
const READ_AFTER_MS = 10
/** One of these is in every event that asks the agent to run something. */
const CALLS = ['_call"', '"tool_use"', '"tool_calls":[', '"tool_calls": [']
const LONGEST_CALL = 15

export function createGateway(deps: {
  access(key: string): GatewayAccess | null
  log: Pick<Log, 'error'>
}): Gateway {
  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const place = placeOf(request)
    if (!place) return refuse(response, 401, 'unauthorized', 'A gateway key is required.')
    const access = deps.access(place.key)
    // Agents retry this: after a restart, terminals open their keys again within seconds.
    if (!access) return refuse(response, 503, 'unknown_key', 'Unknown or expired gateway key; retry.')
    const upstream = Object.hasOwn(access.upstreams, place.upstream)
      ? access.upstreams[place.upstream]
      : undefined
    if (upstream === undefined) {
      return refuse(
        response,
        404,
        'not_found',
        `This gateway key has no model server named ${place.upstream}.`,
      )
    }
    if (request.headers.upgrade?.toLowerCase() === 'websocket') {
      // Agents that try a WebSocket first then fall back to plain HTTP.
      return refuse(response, 426, 'upgrade_refused', 'The gateway does not support WebSockets; use HTTP.')
    }
    const taps = tapped(request, place.path)
    const answer = Promise.withResolvers<Answer | null>()
    const aborter = new AbortController()
    response.once('close', () => aborter.abort())
    if (response.closed) aborter.abort()
    const exchange = taps && {
      ...taps,
      upstream,
      request: setTimeout(READ_AFTER_MS).then(() => taps.sent.text),
      answer: answer.promise,
      isCancelled: () => aborter.signal.aborted,
    }
    const saved = exchange ? observe(access, exchange) : undefined
    try {
      const answered = await forward({
        method: request.method ?? 'GET',
        origin: new URL(upstream),
        path: place.path,
        rawHeaders: withoutOurs(request.rawHeaders),
        body: request,
        signal: aborter.signal,
      })
      await passBack(answered, response, taps ? answer.resolve : null, saved)
    } catch (error) {
      answer.resolve(null)
      if (aborter.signal.aborted) return
      const { code, message } = error as NodeJS.ErrnoException
      refuse(response, 502, 'upstream_failed', `The model server could not be reached: ${code ?? message}.`)
    } finally {
      taps?.sent.end(request.complete)
    }
  }

  function observe(access: GatewayAccess, exchange: Exchange): Promise<void> {
    // Call the observer now: the request belongs to the active run, which may end within milliseconds.
    const observed = async () => await access.observe(exchange)
    return observed().catch((error: unknown) =>
      deps.log.error({ err: error }, 'a model request could not be recorded'),
    )
  }

  return {
    async serve(request, response) {
      try {
        await pass(request, response)
      } catch (error) {
        // The path may hold a key: it is not logged.
        deps.log.error({ err: error }, 'a model request could not be passed on')
        refuse(response, 502, 'upstream_failed', 'The gateway could not pass the request on.')
      }
    },
  }
}

async function passBack(
  answered: IncomingMessage,
  response: ServerResponse,
  begun: ((answer: Answer) => void) | null,
  saved: Promise<void> | undefined,
): Promise<void> {
  const { statusCode = 502, statusMessage, rawHeaders, headers } = answered
  const encoding = headers['content-encoding']
  const tap = begun && createTap(encoding)
  const hold = createHold(saved, encoding !== undefined && encoding !== 'identity')
  if (tap)
    begun?.({
      status: statusCode,
      beganAt: Date.now(),
      contentType: headers['content-type'] ?? '',
      body: tap,
    })
  let isWhole = false
  response.sendDate = false
  response.writeHead(
    statusCode,
    statusMessage,
    passedOn(rawHeaders, () => true),
  )
  response.flushHeaders()
  try {
    for await (const chunk of answered as AsyncIterable<Buffer>) {
      tap?.push(chunk)
      await hold.before(chunk)
      if (response.destroyed) break
      if (!response.write(chunk)) await drained(response)
    }
    isWhole = answered.complete && !response.destroyed
    response.end()
  } catch {
    // The answer broke off: the agent's connection does too, so that it notices.
    response.destroy()
  } finally {
    tap?.end(isWhole)
  }
}

interface Hold {
  before(chunk: Buffer): Promise<void> | undefined
}

/**
 * Models usually answer after the files are saved. If one is faster, the first bytes of a call wait, for a
 * moment at most: once the agent has them, it may change files that no checkpoint has.
 */
function createHold(saved: Promise<void> | undefined, isCompressed: boolean): Hold {
  let isOver = saved === undefined
  let before = Buffer.alloc(0)
  void saved?.finally(() => (isOver = true))
  return {
    before(chunk) {
      if (isOver) return undefined
      const text = Buffer.concat([before, chunk])
      before = text.subarray(-LONGEST_CALL)
      // Compressed bytes don't show whether they ask for a call.
      if (!isCompressed && !CALLS.some((mark) => text.includes(mark))) return undefined
      return Promise.race([saved, setTimeout(HOLD_MS, undefined, { ref: false })]).finally(
        () => (isOver = true),
      )
    },
  }
}

function withoutOurs(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter(
    (_, index) => !rawHeaders[index - (index % 2)]?.toLowerCase().startsWith(OUR_HEADERS),
  )
}

/** Copies of the bodies, for requests that a model answers. */
function tapped(
  request: IncomingMessage,
  path: string,
): (Pick<Exchange, 'protocol' | 'sessionId' | 'credentials'> & { sent: Tap }) | null {
  const protocol = request.method === 'POST' ? protocolOf(path) : undefined
  if (protocol === undefined) return null
  const sent = createTap(request.headers['content-encoding'])
  request.on('data', (chunk: Buffer) => sent.push(chunk))
  request.once('end', () => sent.end(true))
  return { protocol, sessionId: sessionIdOf(request), credentials: credentialsOf(request), sent }
}

/** Undefined for requests that no model answers, such as a list of models. */
function protocolOf(path: string): ProtocolName | null | undefined {
  const [plain = ''] = path.split('?')
  if (plain.endsWith('/responses')) return 'responses'
  if (plain.endsWith('/chat/completions')) return 'chat-completions'
  if (plain.endsWith('/messages')) return 'anthropic'
  return plain.endsWith('/responses/compact') ? null : undefined
}

function credentialsOf({ headers }: IncomingMessage): string[] {
  const names = Object.keys(headers).filter((name) => name === 'cookie' || isSecretKey(name))
  return names
    .flatMap((name) => headers[name] ?? [])
    .flatMap((value) => [value, value.replace(/^\w+ /, '')])
    .filter((value) => value.length >= MIN_CREDENTIAL)
}

function sessionIdOf({ headers }: IncomingMessage): string | null {
  const found = SESSION_HEADERS.map((name) => headers[name]).find((value) => typeof value === 'string')
  return typeof found === 'string' && found !== '' ? found.slice(0, MAX_SESSION_ID) : null
}

interface Place {
  key: string
  upstream: string
  /** The path on the model server, with its query. */
  path: string
}

/** `/gateway/<upstream>/…` with the key in a header, or `/gateway/<key>/<upstream>/…` for agents that can only set a URL. */
function placeOf({ url = '', headers }: IncomingMessage): Place | null {
  const given = headers[KEY_HEADER]
  const inHeader = typeof given === 'string' && given !== ''
  const match = (
    inHeader ? /^\/gateway\/()([^/?]+)(\/.*)$/ : /^\/gateway\/([\w-]{20,})\/([^/?]+)(\/.*)$/
  ).exec(url)
  if (!match) return null
  const [, key = '', upstream = '', path = ''] = match
  return { key: inHeader ? given : key, upstream, path }
}

function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed || response.closed) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
  })
}

/** Errors of ours, in the form that the clients of both providers read. */
function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  if (response.headersSent) return void response.destroy()
  const text = JSON.stringify({ type: 'error', error: { type: code, code, message: `Waymark: ${message}` } })
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  })
  response.end(text)
}
