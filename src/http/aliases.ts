import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { MAX_BODY_BYTES } from '../protocol/api/fields.ts'
import type { Scope } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { authenticate, requireScope } from './auth.ts'
import { decode, readAtMost } from './body.ts'
import { parseBoundedJson } from './bounded-json.ts'
import type { AppDependencies, AppEnv } from './env.ts'

interface Alias {
  method: 'GET' | 'POST'
  alias: string
  path: string
  /** The conversation is named in the body by one of these, and not in the path; the scope that reading it takes. */
  inBody?: { names: readonly string[]; scope: Scope }
  /** What they call a field → what we do. */
  fields?: Readonly<Record<string, string>>
}

const thread = { names: ['thread_id', 'parent_thread_id'], scope: 'conversations:write' } as const

/** Paths by which others know our calls. The same handlers answer them. */
const aliases: readonly Alias[] = [
  { method: 'GET', alias: '/api/dialogs/:id/session', path: '/conversations/:id/session' },
  { method: 'POST', alias: '/api/dialogs/:id/approve', path: '/conversations/:id/approve' },
  { method: 'POST', alias: '/api/dialogs/:id/reset', path: '/conversations/:id/reset' },
  { method: 'POST', alias: '/api/dialogs/:id/restore', path: '/conversations/:id/restore' },
  { method: 'POST', alias: '/commands/create-thread', path: '/conversations' },
  { method: 'POST', alias: '/commands/send-message', path: '/conversations/:id/messages', inBody: thread },
  {
    method: 'POST',
    alias: '/commands/fork-thread',
    path: '/conversations/:id/fork',
    inBody: thread,
    fields: { from_event_number: 'event_number', from_message_id: 'message_id' },
  },
  { method: 'GET', alias: '/threads', path: '/conversations' },
  { method: 'GET', alias: '/threads/:id/messages', path: '/conversations/:id/messages' },
  { method: 'GET', alias: '/threads/:id/branches', path: '/conversations/:id/branches' },
  { method: 'GET', alias: '/threads/:id/head', path: '/conversations/:id' },
]

export function addAliases(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  for (const one of aliases) {
    const paths = one.alias.startsWith('/api/') ? [one.alias] : [one.alias, `/api/v1${one.alias}`]
    // Others are passed on unread: the call that they stand for authenticates first.
    if (one.inBody) {
      for (const path of paths) app.use(path, authenticate(deps), requireScope(one.inBody.scope))
    }
    app.on(one.method, paths, async (c) => {
      const { id, init } = one.inBody
        ? await fromBody(c, one)
        : { id: c.req.param('id') ?? '', init: c.req.raw }
      const url = new URL(c.req.url)
      url.pathname = `/api/v1${one.path.replace(':id', encodeURIComponent(id.toWellFormed()))}`
      return app.fetch(new Request(url, init), c.env)
    })
  }
}

/** A body that is not an object is passed on as it is: the handler says what is wrong with it. */
async function fromBody(c: Context<AppEnv>, alias: Alias): Promise<{ id: string; init: RequestInit }> {
  const text = decode(await readAtMost(c.req.raw, MAX_BODY_BYTES))
  const headers = new Headers(c.req.raw.headers)
  headers.delete('content-length')
  const { method } = c.req.raw
  const given = objectIn(text)
  const key = alias.inBody?.names.find((name) => typeof given?.[name] === 'string')
  if (!given) return { id: '-', init: { method, headers, body: text } }
  if (key === undefined) {
    throw new WaymarkError('invalid_request', 'The body must name the conversation, as thread_id.')
  }
  const body = Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) =>
      name === key ? [] : [[alias.fields?.[name] ?? name, value]],
    ),
  )
  return { id: String(given[key]), init: { method, headers, body: JSON.stringify(body) } }
}

function objectIn(text: string): Record<string, unknown> | null {
  const value = parseBoundedJson(text)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
}
