import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Context } from 'hono'
import type { Page } from '../core/ledger.ts'
import { type Cursor, formatCursor } from '../protocol/cursor.ts'

const HEARTBEAT_MS = 10_000
/** How long a reader may leave the send buffer undrained. */
const SLOW_MS = 30_000

/** An open event stream, written directly to the socket, because every frame of every reader passes through it. */
export interface EventStream {
  /** Resolves when the reader can accept more data. */
  write(chunk: string | Buffer): Promise<void>
  /** Aborts when the reader disconnects or the server stops. */
  signal: AbortSignal
  end(): void
}

export function openEventStream(response: ServerResponse, stopping: AbortSignal): EventStream {
  const gone = new AbortController()
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': heartbeat\n\n')
  }, HEARTBEAT_MS)
  const leave = () => {
    clearInterval(heartbeat)
    gone.abort()
  }
  response.on('close', leave)
  // A client that disconnected before this point has already emitted `close`.
  if (response.closed || response.destroyed) leave()
  const signal = AbortSignal.any([gone.signal, stopping])
  response.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
    'X-Content-Type-Options': 'nosniff',
  })
  response.flushHeaders()
  return {
    signal,
    async write(chunk) {
      if (response.destroyed || response.write(chunk)) return
      // Unread data stays in memory, so disconnect a reader that makes no progress; it can resume from its cursor.
      for (let left = response.writableLength; !signal.aborted && !response.destroyed; ) {
        const isDrained = once(response, 'drain', {
          signal: AbortSignal.any([signal, AbortSignal.timeout(SLOW_MS)]),
        })
        if (
          await isDrained.then(
            () => true,
            () => false,
          )
        )
          return
        if (response.writableLength >= left) return void response.destroy()
        left = response.writableLength
      }
    },
    end() {
      clearInterval(heartbeat)
      response.end()
    },
  }
}

export function wantsStream(c: Context): boolean {
  return c.req.header('accept')?.toLowerCase().includes('text/event-stream') ?? false
}

const encoded = new WeakMap<Page, Buffer>()

/** Encodes a page for the wire, once for all readers. */
export function encodePage(page: Page): Buffer {
  let bytes = encoded.get(page)
  if (!bytes) {
    bytes = Buffer.from(pageText(page))
    encoded.set(page, bytes)
  }
  return bytes
}

function pageText(page: Page): string {
  let text = page.cut ? cutEvent(page.cut) : ''
  for (const part of page.parts) {
    for (let seq = part.from; seq <= part.to; seq++) {
      text += `id: ${part.segmentId}.${seq}\ndata: ${page.frames[seq - page.firstSeq]}\n\n`
    }
  }
  return text
}

/** Has an id, unlike other named events, so that a reader that disconnects right after it resumes from the cut. */
function cutEvent(cut: Cursor): string {
  return `id: ${formatCursor(cut)}\nevent: cut\ndata: {"cut_after":${cut.seq}}\n\n`
}

export function namedEvent(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
