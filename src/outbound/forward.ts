import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Readable } from 'node:stream'

/**
 * Passes a request of an agent on to its model server and returns the answer, both unchanged: bytes, status and headers,
 * compressed or not. Nothing is buffered, no redirect is followed. The credentials in the headers are the agent's own and go
 * only to the server that the person has configured.
 */
export interface ForwardedRequest {
  method: string
  /** The server; only its scheme, host and port count. */
  origin: URL
  /** The path with its query, as it came: a parsed URL would write it differently. */
  path: string
  /** Names and values in turn, as they came. */
  rawHeaders: readonly string[]
  body: Readable
  signal: AbortSignal
}

/** A model may think for long before it answers; a server that sends nothing for this time is given up. */
const SILENCE_MS = 15 * 60_000
/** Headers of one connection, not of the request (RFC 9110, 7.6.1). */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Servers close idle connections after five seconds and more: an older one might be closed just when it is used again. */
const idle = { keepAlive: true, timeout: 4000 }
const agents = { 'http:': new HttpAgent(idle), 'https:': new HttpsAgent(idle) }

export function forward(request: ForwardedRequest): Promise<IncomingMessage> {
  const { method, origin, path, rawHeaders, body, signal } = request
  return new Promise((resolve, reject) => {
    const isSecure = origin.protocol === 'https:'
    const headers = passedOn(rawHeaders, (name) => name !== 'host')
    const hasLength = isNamed(headers, 'content-length')
    const hasBody = hasLength || isNamed(rawHeaders, 'transfer-encoding')
    const send = isSecure ? httpsRequest : httpRequest
    const outgoing = send({
      method,
      protocol: origin.protocol,
      // In a URL, an IPv6 address has brackets.
      hostname: origin.hostname.replace(/^\[|\]$/g, ''),
      port: origin.port,
      path,
      headers: [
        'Host',
        origin.host,
        ...headers,
        ...(hasBody && !hasLength ? ['Transfer-Encoding', 'chunked'] : []),
      ],
      agent: isSecure ? agents['https:'] : agents['http:'],
      signal,
    })
    outgoing.setTimeout(SILENCE_MS, () => outgoing.destroy(new Error('the model server sends nothing')))
    outgoing.once('response', resolve)
    outgoing.once('error', reject)
    body.once('error', (error) => outgoing.destroy(error))
    if (hasBody) body.pipe(outgoing)
    else outgoing.end()
  })
}

function isNamed(rawHeaders: readonly string[], name: string): boolean {
  return rawHeaders.some((text, index) => index % 2 === 0 && text.toLowerCase() === name)
}

/** The headers that belong to the message, in their order, without those of the connection. */
export function passedOn(rawHeaders: readonly string[], isWanted: (name: string) => boolean): string[] {
  const named = new Set(HOP_BY_HOP)
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() !== 'connection') continue
    for (const name of (rawHeaders[index + 1] ?? '').split(',')) named.add(name.trim().toLowerCase())
  }
  return rawHeaders.filter((_, index) => {
    const name = (rawHeaders[index - (index % 2)] ?? '').toLowerCase()
    return !named.has(name) && isWanted(name)
  })
}
