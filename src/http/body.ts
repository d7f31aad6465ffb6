import type { MiddlewareHandler } from 'hono'
import { parseBoundedJson } from '../core/bounded-json.ts'
import { MAX_BODY_BYTES } from '../protocol/api/fields.ts'
import { WaymarkError } from '../protocol/errors.ts'

const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/** Reads the body once, within limits, as UTF-8 JSON. A missing body is an empty object. Runs after the scope check. */
export const readJsonBody: MiddlewareHandler = async (c, next) => {
  if (METHODS_WITH_BODY.has(c.req.method)) {
    const bytes = await readAtMost(c.req.raw, MAX_BODY_BYTES)
    if (bytes.length > 0 && !isJson(c.req.header('content-type'))) {
      throw new WaymarkError('unsupported_media_type', 'The body must be application/json.')
    }
    const text = bytes.length === 0 ? '{}' : decode(bytes)
    const value = parseBoundedJson(text)
    // Validators and handlers read the type, the text and the value; compute each once.
    c.req.raw.headers.set('content-type', 'application/json')
    c.req.text = () => Promise.resolve(text)
    c.req.json = () => Promise.resolve(value as never)
  }
  await next()
}

export async function readAtMost(request: Request, most: number): Promise<Uint8Array> {
  const tooLarge = () => new WaymarkError('body_too_large', `The body exceeds the limit of ${most} bytes.`)
  if (Number(request.headers.get('content-length') ?? 0) > most) throw tooLarge()
  const chunks: Uint8Array[] = []
  let length = 0
  if (request.body) {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      length += chunk.length
      if (length > most) throw tooLarge()
      chunks.push(chunk)
    }
  }
  return Buffer.concat(chunks)
}

function isJson(contentType: string | undefined): boolean {
  return /^application\/([a-z0-9.-]+\+)?json\s*(;|$)/i.test(contentType ?? '')
}

export function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new WaymarkError('invalid_utf8', 'The body is not valid UTF-8.', { cause })
  }
}
