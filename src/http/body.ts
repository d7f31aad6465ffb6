import type { MiddlewareHandler } from 'hono'
import type * as z from 'zod'
import { MAX_DEPTH, parseBoundedJson } from '../core/bounded-json.ts'
import { MAX_BODY_BYTES } from '../protocol/api/fields.ts'
import { WaymarkError } from '../protocol/errors.ts'

const NEWLINE = 10
/** A line may wrap a value of the usual depth. */
const LINE_DEPTH = 4
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

/** The lines of a body as they arrive, each of at most so many bytes. */
export async function* bodyLines(request: Request, most: number): AsyncGenerator<string> {
  let pieces: Uint8Array[] = []
  let length = 0
  const bounded = (more: number) => {
    length += more
    if (length > most) throw new WaymarkError('body_too_large', `A line exceeds the limit of ${most} bytes.`)
  }
  for await (const chunk of (request.body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      bounded(end - from)
      yield decode(Buffer.concat([...pieces, chunk.subarray(from, end)]))
      pieces = []
      length = 0
      from = end + 1
    }
    bounded(chunk.length - from)
    pieces.push(chunk.subarray(from))
  }
  if (length > 0) yield decode(Buffer.concat(pieces))
}

/** Parses a line of a body; `number` is for the problem's text. */
export function parsedLine<T>(schema: z.ZodType<T>, line: string, number: number): T {
  const parsed = schema.safeParse(parseBoundedJson(line, MAX_DEPTH + LINE_DEPTH))
  if (parsed.success) return parsed.data
  throw new WaymarkError('invalid_request', `Line ${number} does not match the API schema.`, {
    details: parsed.error.issues.map(({ path, message }) => ({
      path: ['body', number, ...path].join('.'),
      message,
    })),
  })
}
