import type { CutNotice } from '../protocol/api/ledger.ts'
import type { QueueView } from '../protocol/api/runs.ts'
import type { Problem } from '../protocol/api/service.ts'
import type { AnyFrame } from '../protocol/frames.ts'
import { readEventStream } from './event-stream.ts'
import { type ClientOptions, RequestError, request } from './request.ts'

export interface StreamOptions {
  /** Where to continue; default: the beginning. */
  cursor?: string
  /** False ends the stream at the head. Default: true. */
  follow?: boolean
  signal?: AbortSignal
  onState?: (state: StreamState) => void
  /** Called with the queue at first, and after every change. */
  onQueue?: (queue: QueueView) => void
  /** The first wait before reconnecting; it doubles up to 10 s. */
  firstWaitMs?: number
}

export type StreamState = 'connecting' | 'connected' | 'waiting'

export type StreamItem =
  | { type: 'frame'; cursor: string; frame: AnyFrame; text: string }
  /** Events after this one are no longer on the line. */
  | { type: 'cut'; after: number; cursor: string | null }

const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 10_000

/**
 * Yields the frames from the cursor on, in the batches in which they arrive. Reconnects with backoff after the last
 * frame it yielded: no frame is missing or repeated (L7).
 */
export async function* streamLedger(
  client: ClientOptions,
  conversationId: string,
  options: StreamOptions = {},
): AsyncGenerator<StreamItem[]> {
  const { signal, follow = true, onState = () => {}, onQueue = () => {} } = options
  let cursor = options.cursor
  let failures = 0
  while (!signal?.aborted) {
    try {
      onState('connecting')
      const response = await request(client, `/conversations/${conversationId}/ledger/stream`, {
        query: { cursor, follow: String(follow) },
        ...(signal ? { signal } : {}),
      })
      onState('connected')
      for await (const events of readEventStream(response)) {
        const problem = events.findIndex((event) => event.event === 'problem')
        const good = problem < 0 ? events : events.slice(0, problem)
        const items = good.flatMap(asItem)
        for (const event of good) {
          if (event.event === 'queue') onQueue(JSON.parse(event.data) as QueueView)
        }
        failures = 0
        if (items.length > 0) yield items
        cursor = items.at(-1)?.cursor ?? cursor
        if (problem >= 0) throw problemOf(events[problem]?.data ?? '')
      }
      if (!follow) return
    } catch (error) {
      if (signal?.aborted) return
      // The server no longer knows a cursor that it gave out: a backup was restored. Read everything again.
      if (error instanceof RequestError && error.code === 'bad_cursor' && cursor !== options.cursor) {
        cursor = undefined
        yield [{ type: 'cut', after: 0, cursor: null }]
        continue
      }
      if (error instanceof RequestError && !error.mayPass) throw error
    }
    onState('waiting')
    await pause(waitFor(failures++, options.firstWaitMs), signal)
  }
}

function problemOf(data: string): RequestError {
  const problem = JSON.parse(data) as Problem
  return new RequestError(problem.status, problem)
}

function asItem(event: { id?: string | undefined; event?: string | undefined; data: string }): StreamItem[] {
  if (event.event === 'cut') {
    const { cut_after } = JSON.parse(event.data) as CutNotice
    return [{ type: 'cut', after: cut_after, cursor: event.id ?? null }]
  }
  // Other named events are notifications, not history; unknown ones are skipped (L10).
  if (event.event !== undefined || event.id === undefined) return []
  return [{ type: 'frame', cursor: event.id, frame: JSON.parse(event.data) as AnyFrame, text: event.data }]
}

/** Exponential backoff with jitter, so that a thousand clients don't reconnect at the same moment. */
export function waitFor(failures: number, firstMs = FIRST_WAIT_MS): number {
  return Math.min(firstMs * 2 ** failures, LONGEST_WAIT_MS) * (0.5 + Math.random() / 2)
}

export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds)
    function done(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    signal?.addEventListener('abort', done)
  })
}
