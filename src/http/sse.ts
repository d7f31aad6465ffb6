import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Page } from '../core/ledger.ts'
import { type Cursor, formatCursor } from '../protocol/cursor.ts'

const HEARTBEAT_MS = 10_000
/** How long a reader may take nothing of what was written. */
const SLOW_MS = 30_000

/** An open event stream, written straight to the socket: this is where every frame of every reader goes through. */
export interface EventStream {
  /** Resolves when the reader can take more. */
  write(chunk: string | Buffer): Promise<void>
  /** Aborts when the reader is gone, or the server stops. */
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
  // A client that left during the read has already emitted `close`.
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
      // What a reader has not taken stays in memory: one that takes nothing for a while is disconnected, and resumes.
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

const encoded = new WeakMap<Page, Buffer>()

/** A page as it goes over the wire, made once however many readers get it. */
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

/** With an id, unlike other named events: what comes next is counted from here, also by a reader that loses its way now. */
function cutEvent(cut: Cursor): string {
  return `id: ${formatCursor(cut)}\nevent: cut\ndata: {"cut_after":${cut.seq}}\n\n`
}

export function namedEvent(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
