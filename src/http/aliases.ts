import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { parseBoundedJson } from '../core/bounded-json.ts'
import { MAX_BODY_BYTES } from '../protocol/api/fields.ts'
import type { Scope } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { AppEnv } from './app-dependencies.ts'
import { requireScope } from './auth.ts'
import { decode, readAtMost } from './body.ts'

interface Alias {
  method: 'GET' | 'POST'
  alias: string
  path: string
  /** The body names the conversation in one of these fields instead of the path; `scope` is required to read the body. */
  inBody?: { names: readonly string[]; scope: Scope }
  /** Maps their field names to ours. */
  fields?: Readonly<Record<string, string>>
  /** Adds the fields that their clients read to our answer. */
  answer?: (body: Fields, id: string) => Fields
}

type Fields = Record<string, unknown>

const thread = {
  names: ['thread_id', 'source_thread_id', 'parent_thread_id'],
  scope: 'conversations:write',
} as const

function asThread(conversation: Fields): Fields {
  const parent = conversation.parent as { conversation_id: string; event_number: number } | null
  return {
    ...conversation,
    thread_id: conversation.id,
    parent_thread_id: parent?.conversation_id ?? null,
    fork_event_number: parent?.event_number ?? null,
  }
}

function withItems(change: (item: Fields, id: string) => Fields) {
  return (body: Fields, id: string) => ({
    ...body,
    items: (body.items as Fields[]).map((item) => change(item, id)),
  })
}

function asBranch(branch: Fields, parent_thread_id: string): Fields {
  const { conversation_id: thread_id, from_event_number: fork_event_number } = branch
  return { ...branch, thread_id, parent_thread_id, fork_event_number }
}

function asMessage(message: Fields): Fields {
  return { ...message, thread_id: message.conversation_id, checkpoint_id: message.checkpoint_id ?? null }
}

/** Alternative paths for API calls, served by the same handlers. */
const aliases: readonly Alias[] = [
  { method: 'GET', alias: '/api/dialogs/:id/session', path: '/conversations/:id/session' },
  { method: 'POST', alias: '/api/dialogs/:id/approve', path: '/conversations/:id/approve' },
  { method: 'POST', alias: '/api/dialogs/:id/reset', path: '/conversations/:id/reset' },
  { method: 'POST', alias: '/api/dialogs/:id/restore', path: '/conversations/:id/restore' },
  { method: 'POST', alias: '/commands/create-thread', path: '/conversations', answer: asThread },
  { method: 'POST', alias: '/commands/send-message', path: '/conversations/:id/messages', inBody: thread },
  {
    method: 'POST',
    alias: '/commands/fork-thread',
    path: '/conversations/:id/fork',
    inBody: thread,
    fields: { from_event_number: 'event_number', from_message_id: 'message_id' },
    answer: (body) => ({ ...asThread(body), new_thread_id: body.id }),
  },
  { method: 'GET', alias: '/threads', path: '/conversations', answer: withItems(asThread) },
  {
    method: 'GET',
    alias: '/threads/:id/messages',
    path: '/conversations/:id/messages',
    answer: withItems(asMessage),
  },
  {
    method: 'GET',
    alias: '/threads/:id/branches',
    path: '/conversations/:id/branches',
    answer: withItems(asBranch),
  },
  { method: 'GET', alias: '/threads/:id/head', path: '/conversations/:id', answer: asThread },
]

export function addAliases(app: OpenAPIHono<AppEnv>): void {
  for (const one of aliases) {
    const paths = one.alias.startsWith('/api/') ? [one.alias] : [one.alias, `/api/v1${one.alias}`]
    // Aliases without `inBody` forward the body unread: the target route checks the scope itself.
    if (one.inBody) {
      for (const path of paths) app.use(path, requireScope(one.inBody.scope))
    }
    app.on(one.method, paths, async (c) => {
      const { id, init } = one.inBody
        ? await fromBody(c, one)
        : { id: c.req.param('id') ?? '', init: c.req.raw }
      const url = new URL(c.req.url)
      url.pathname = `/api/v1${one.path.replace(':id', encodeURIComponent(id.toWellFormed()))}`
      const answer = await app.fetch(new Request(url, init), c.env)
      return one.answer ? await withFields(answer, (body) => one.answer?.(body, id) ?? body) : answer
    })
  }
}

/** Leaves errors and non-JSON answers unchanged. */
async function withFields(answer: Response, change: (body: Fields) => Fields): Promise<Response> {
  const isJson = answer.headers.get('content-type')?.startsWith('application/json')
  if (!answer.ok || !isJson) return answer
  const headers = new Headers(answer.headers)
  headers.delete('content-length')
  const body = JSON.stringify(change((await answer.json()) as Fields))
  return new Response(body, { status: answer.status, headers })
}

/** Forwards a body that is not an object unchanged, so that the handler reports the error. */
async function fromBody(c: Context<AppEnv>, alias: Alias): Promise<{ id: string; init: RequestInit }> {
  const text = decode(await readAtMost(c.req.raw, MAX_BODY_BYTES))
  const headers = new Headers(c.req.raw.headers)
  headers.delete('content-length')
  const { method } = c.req.raw
  const given = objectIn(text)
  const key = alias.inBody?.names.find((name) => typeof given?.[name] === 'string')
  if (!given) return { id: '-', init: { method, headers, body: text } }
  if (key === undefined) {
    throw new WaymarkError('invalid_request', 'The body must name the conversation in thread_id.')
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
