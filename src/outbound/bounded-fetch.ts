/**
 * All requests to servers that a person has configured (model servers, embedders, tool servers) go through here. Responses
 * are treated as hostile input: each wait, each error body, each event and the whole response has a limit, and redirects
 * never leave the origin, because the headers carry keys.
 */
export interface OutboundLimits {
  /** Time limit for the start of the response, and for each pause within it. */
  silenceMs: number
  /** Time limit for the whole response. */
  totalMs: number
  /** Size limit for an error response; the rest is dropped. */
  errorBytes: number
  /** Size limit for the whole response. */
  totalBytes: number
  /** Size limit for one event of a stream. */
  eventBytes: number
}

const defaultLimits: OutboundLimits = {
  silenceMs: 300_000,
  totalMs: 12 * 300_000,
  errorBytes: 64 * 1024,
  totalBytes: 256 * 1024 * 1024,
  eventBytes: 8 * 1024 * 1024,
}

/** The server exceeded a limit or redirected to another origin. */
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
  // Also bounds a server that keeps the connection open with nothing but keep-alives.
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
      // `fetch` wraps the abort reason in its own errors.
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
      throw new OutboundFailure('redirected', `${first.origin} redirects to another address: refused.`)
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
  const events = answer.ok && isStream ? createEventSplitter(limits.eventBytes) : null
  let bytes = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      clock.alive()
      bytes += chunk.length
      if (!answer.ok && bytes > limits.errorBytes) {
        controller.enqueue(chunk.subarray(0, Math.max(0, chunk.length - (bytes - limits.errorBytes))))
        return controller.terminate()
      }
      if (bytes > limits.totalBytes) throw tooLarge()
      if (!events) return controller.enqueue(chunk)
      for (const event of events.take(chunk)) controller.enqueue(event)
    },
    flush(controller) {
      clock.stop()
      const rest = events?.rest()
      if (rest?.length) controller.enqueue(rest)
    },
  })
  const body = answer.body.pipeThrough(limit)
  const headers = new Headers(answer.headers)
  // The body is decoded and may be cut, so these headers no longer apply.
  headers.delete('content-length')
  headers.delete('content-encoding')
  return new Response(body, { status: answer.status, statusText: answer.statusText, headers })
}

/**
 * Forwards a stream one event at a time. The SDKs copy their whole buffer for each chunk and for each event in it, so a
 * large event in small chunks, or many events in one chunk, would cost them memory quadratic in its size.
 */
function createEventSplitter(eventBytes: number) {
  /** The unfinished event. The buffer grows by doubling because chunks may be one byte long. */
  let held = Buffer.alloc(0)
  let size = 0

  function hold(piece: Uint8Array): void {
    const needed = size + piece.length
    if (needed > eventBytes) throw tooLarge()
    if (needed > held.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(eventBytes, Math.max(needed, held.length * 2)))
      held.copy(larger, 0, 0, size)
      held = larger
    }
    held.set(piece, size)
    size = needed
  }

  function rest(): Uint8Array {
    const event = held.subarray(0, size)
    held = Buffer.alloc(0)
    size = 0
    return event
  }

  return {
    rest,
    *take(chunk: Uint8Array): Generator<Uint8Array> {
      // The empty line that ends an event may start in the previous chunk.
      const before = held.subarray(Math.max(0, size - 3), size)
      let from = 0
      for (const end of eventEnds(Buffer.concat([before, chunk]))) {
        const to = end - before.length
        const piece = chunk.subarray(from, to)
        from = to
        if (size === 0 && piece.length <= eventBytes) yield piece
        else {
          hold(piece)
          yield rest()
        }
      }
      if (from < chunk.length) hold(chunk.subarray(from))
    },
  }
}

const EMPTY_LINES = ['\n\n', '\r\n\r\n', '\r\r']

/** The offsets at which events end, in order. */
function* eventEnds(bytes: Buffer): Generator<number> {
  const next = EMPTY_LINES.map((line) => ({ line, at: bytes.indexOf(line) }))
  for (;;) {
    const first = next.reduce((best, found) =>
      found.at >= 0 && (best.at < 0 || found.at < best.at) ? found : best,
    )
    if (first.at < 0) return
    const end = first.at + first.line.length
    yield end
    for (const found of next) {
      if (found.at >= 0 && found.at < end) found.at = bytes.indexOf(found.line, end)
    }
  }
}

function tooLarge(): OutboundFailure {
  return new OutboundFailure('answer_too_large', 'The response exceeds the size limit.')
}
