/**
 * The only way out to servers that a person has named: model servers, embedders, tool servers. Their answers are hostile
 * input: each wait, each error body, each event and the whole answer has a limit, and a redirect never leads to another
 * origin, because keys travel in the headers.
 */
export interface OutboundLimits {
  /** How long a server may take to begin its answer, and to send anything more of it. */
  silenceMs: number
  /** How long the whole answer may take. */
  totalMs: number
  /** An answer that is an error; what is beyond is dropped. */
  errorBytes: number
  /** The whole answer, and one event of a stream. */
  totalBytes: number
  eventBytes: number
}

const defaultLimits: OutboundLimits = {
  silenceMs: 300_000,
  totalMs: 12 * 300_000,
  errorBytes: 64 * 1024,
  totalBytes: 256 * 1024 * 1024,
  eventBytes: 8 * 1024 * 1024,
}

/** The other side broke a limit, or leads elsewhere. */
export class OutboundFailure extends Error {
  readonly code: 'timeout' | 'answer_too_large' | 'redirected'

  constructor(code: OutboundFailure['code'], message: string) {
    super(message)
    this.name = 'OutboundFailure'
    this.code = code
  }
}

const MAX_REDIRECTS = 3

export function createBoundedFetch(
  options: { limits?: Partial<OutboundLimits>; signal?: AbortSignal } = {},
): typeof fetch {
  const limits = { ...defaultLimits, ...options.limits }
  // A server that keeps the line open with nothing but signs of life does not go on for ever either.
  limits.totalMs = options.limits?.totalMs ?? limits.silenceMs * 12

  return async (input, init) => {
    const controller = new AbortController()
    const given = input instanceof Request ? input.signal : null
    for (const signal of [options.signal, init?.signal, given]) {
      if (signal?.aborted) controller.abort(signal.reason)
      signal?.addEventListener('abort', () => controller.abort(signal.reason), { once: true })
    }
    const fail = (error: Error) => controller.abort(error)
    const clock = createClock(limits, fail)
    controller.signal.addEventListener('abort', clock.stop, { once: true })
    try {
      const answer = await follow(input, init, controller.signal)
      clock.alive()
      return bounded(answer, limits, clock)
    } catch (error) {
      clock.stop()
      // The platform wraps it in errors of its own.
      throw controller.signal.reason instanceof OutboundFailure ? controller.signal.reason : error
    }
  }
}

async function follow(
  input: Parameters<typeof fetch>[0],
  init: RequestInit | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const first = new URL(input instanceof Request ? input.url : input)
  let target: Parameters<typeof fetch>[0] = input
  for (let hops = 0; ; hops++) {
    const answer = await fetch(target, { ...init, signal, redirect: 'manual' })
    const location = answer.headers.get('location')
    if (answer.status < 300 || answer.status > 399 || answer.status === 304 || location === null)
      return answer
    await answer.body?.cancel()
    const next = URL.canParse(location, first) ? new URL(location, first) : null
    const keepsMethod = answer.status === 307 || answer.status === 308 || (init?.method ?? 'GET') === 'GET'
    if (next?.origin !== first.origin || !keepsMethod || hops >= MAX_REDIRECTS) {
      throw new OutboundFailure('redirected', `${first.origin} leads to another address, which is refused.`)
    }
    target = next
  }
}

interface Clock {
  alive(): void
  stop(): void
}

function createClock({ silenceMs, totalMs }: OutboundLimits, fail: (error: Error) => void): Clock {
  const late = (ms: number, what: string) => () =>
    fail(new OutboundFailure('timeout', `The server ${what} ${Math.round(ms / 1000)} s.`))
  const start = (ms: number, what: string) => setTimeout(late(ms, what), ms).unref()
  const total = start(totalMs, 'did not finish within')
  let silence = start(silenceMs, 'sent nothing for')
  return {
    alive() {
      clearTimeout(silence)
      silence = start(silenceMs, 'sent nothing for')
    },
    stop() {
      clearTimeout(silence)
      clearTimeout(total)
    },
  }
}

function bounded(answer: Response, limits: OutboundLimits, clock: Clock): Response {
  if (!answer.body) {
    clock.stop()
    return answer
  }
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const events = isStream ? createEventSizes() : null
  let bytes = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      clock.alive()
      bytes += chunk.length
      if (!answer.ok && bytes > limits.errorBytes) {
        controller.enqueue(chunk.subarray(0, Math.max(0, chunk.length - (bytes - limits.errorBytes))))
        return controller.terminate()
      }
      if (bytes > limits.totalBytes || (events?.take(chunk) ?? 0) > limits.eventBytes) {
        throw new OutboundFailure('answer_too_large', 'The server sent more than an answer may have.')
      }
      controller.enqueue(chunk)
    },
    flush: () => clock.stop(),
  })
  const body = answer.body.pipeThrough(limit)
  const headers = new Headers(answer.headers)
  // The body is as long as it is by now.
  headers.delete('content-length')
  headers.delete('content-encoding')
  return new Response(body, { status: answer.status, statusText: answer.statusText, headers })
}

/** How many bytes have come since the last empty line: that is where an event ends. */
function createEventSizes(): { take(chunk: Uint8Array): number } {
  let since = 0
  let tail = Buffer.alloc(0)
  return {
    take(chunk) {
      // An empty line may begin in the chunk before.
      const bytes = Buffer.concat([tail, chunk])
      const end = Math.max(...EMPTY_LINES.map((line) => endOfLast(bytes, line)))
      since = end > tail.length ? bytes.length - end : since + chunk.length
      tail = Buffer.from(bytes.subarray(-3))
      return since
    },
  }
}

const EMPTY_LINES = ['\n\n', '\r\n\r\n', '\r\r']

function endOfLast(bytes: Buffer, text: string): number {
  const at = bytes.lastIndexOf(text)
  return at < 0 ? 0 : at + text.length
}
