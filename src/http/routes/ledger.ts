import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Page, PageQuery } from '../../core/ledger.ts'
import {
  eventsPageSchema,
  eventsQuery,
  messageListSchema,
  messagesQuery,
  streamQuery,
} from '../../protocol/api/ledger.ts'
import { type Cursor, formatCursor, parseCursor } from '../../protocol/cursor.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { conversationId, conversationParam, json, problems } from '../openapi.ts'
import { problemOf } from '../problem.ts'
import { queueNotice } from '../queue-view.ts'
import { type EventStream, encodePage, namedEvent, openEventStream } from '../sse.ts'

// Small enough to keep memory per reader flat; large enough that a long replay needs only one read every 10 ms.
const STREAM_PAGE = 250

const events = createRoute({
  method: 'get',
  path: '/conversations/{id}/ledger/events',
  summary: 'Read the frames of the ledger in pages, byte for byte',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: eventsQuery },
  responses: { 200: json(eventsPageSchema, 'A page of frames'), ...problems },
})

const stream = createRoute({
  method: 'get',
  path: '/conversations/{id}/ledger/stream',
  summary: 'Replay the ledger as server-sent events, then follow it live',
  description:
    'Each event has the cursor as its `id` and the frame as its `data`. Resume with `Last-Event-ID` or `cursor`. ' +
    'An event named `cut` means that the events after `cut_after` are no longer on the line.',
  middleware: access('conversations:read'),
  request: {
    params: conversationParam,
    query: streamQuery,
    headers: z.object({ 'last-event-id': z.string().optional() }),
  },
  responses: {
    200: { description: 'Frames', content: { 'text/event-stream': { schema: z.string() } } },
    ...problems,
  },
})

const messages = createRoute({
  method: 'get',
  path: '/conversations/{id}/messages',
  summary: 'List the messages of the line, oldest first',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: messagesQuery },
  responses: { 200: json(messageListSchema, 'A page of messages'), ...problems },
})

export function addLedgerRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const { ledger } = deps

  app.openapi(events, async (c) => {
    const { limit, cursor, before } = c.req.valid('query')
    const page = await ledger.page({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      cursor: cursorOf(cursor),
      limit,
      ...(before === undefined ? {} : { before }),
    })
    // Splice the stored frames in verbatim: parsing and re-serializing them could change their bytes (L4).
    return c.body(eventsPageText(page), 200, { 'Content-Type': 'application/json' }) as never
  })

  app.openapi(stream, async (c) => {
    const { cursor, follow } = c.req.valid('query')
    const query: PageQuery = {
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      // A reconnecting browser repeats its original URL, so Last-Event-ID takes precedence over `cursor`.
      cursor: cursorOf(c.req.header('last-event-id') || cursor),
      limit: STREAM_PAGE,
    }
    if (c.req.method === 'HEAD') {
      await ledger.page({ ...query, limit: 1 })
      return c.body(null, 200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
    }
    const ended = new AbortController()
    const signal = AbortSignal.any([ended.signal, deps.stopping])
    const pages = ledger.follow(query, signal)[Symbol.asyncIterator]()
    // Read the first page before sending headers, so that an error still gets its HTTP status.
    const first = await pages.next()
    const out = openEventStream(c.env.outgoing, deps.stopping)
    if (out.signal.aborted) ended.abort()
    out.signal.addEventListener('abort', () => ended.abort())
    deps.metrics.openStreams.inc()
    const stopNotices = follow === 'true' ? sendQueueNotices(out, deps, query) : () => {}
    void sendPages(out, first, pages, follow === 'true')
      .catch(async (error: unknown) => {
        deps.log.error({ err: error, conversation: query.conversationId }, 'stream interrupted')
        await out.write(namedEvent('problem', problemOf(error)))
      })
      .finally(() => {
        deps.metrics.openStreams.dec()
        stopNotices()
        ended.abort()
        out.end()
      })
    return RESPONSE_ALREADY_SENT
  })

  app.openapi(messages, async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const { items, next } = await ledger.messages({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      cursor: cursorOf(cursor),
      limit,
    })
    return c.json({ items, next_cursor: next ? formatCursor(next) : null }, 200)
  })
}

/** Sends the queue now and after each change. The events have no id because the queue is not part of the history. */
function sendQueueNotices(out: EventStream, deps: AppDependencies, query: PageQuery): () => void {
  const { tenant, conversationId: id } = query
  let sent = ''
  let isReading = false
  let readAgain = false
  async function send(): Promise<void> {
    readAgain = true
    if (isReading) return
    isReading = true
    try {
      while (readAgain && !out.signal.aborted) {
        readAgain = false
        const event = namedEvent('queue', queueNotice(await deps.queue.read(tenant, id)))
        if (event !== sent) await out.write(event)
        sent = event
      }
    } catch (error) {
      // Queue notices are redundant with the frames, so the stream continues.
      deps.log.error({ err: error, conversation: id }, 'could not send the queue')
    } finally {
      isReading = false
    }
  }
  void send()
  return deps.queue.onChange((changed) => {
    if (changed === id || changed === null) void send()
  })
}

async function sendPages(
  out: EventStream,
  first: IteratorResult<Page>,
  pages: AsyncIterator<Page>,
  follow: boolean,
): Promise<void> {
  for (let next = first; !next.done; next = await pages.next()) {
    const page = next.value
    if (page.frames.length > 0 || page.cut) await out.write(encodePage(page))
    if (page.atEnd && !follow) break
    if (out.signal.aborted) break
  }
  await pages.return?.()
}

function cursorOf(text: string | undefined): Cursor | null {
  if (text === undefined) return null
  const cursor = parseCursor(text)
  if (!cursor) throw new WaymarkError('bad_cursor', 'Invalid ledger cursor.')
  return cursor
}

function eventsPageText(page: Page): string {
  const last = formatCursor(page.last)
  const tail = {
    next_cursor: page.atEnd ? null : last,
    last_cursor: last,
    digest: page.digest,
  }
  return (
    `{"conversation_id":"${page.conversationId}","cut_after":${page.cut?.seq ?? null},` +
    `"items":[${page.frames.join(',')}],${JSON.stringify(tail).slice(1)}`
  )
}
