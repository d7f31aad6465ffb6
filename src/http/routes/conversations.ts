import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { ConversationsQuery } from '../../core/ledger.ts'
import type { Token } from '../../core/tokens.ts'
import {
  conversationListSchema,
  conversationSchema,
  createConversationSchema,
  listConversationsQuery,
  patchConversationSchema,
  type Settings,
  searchedKinds,
  searchQuery,
  searchResultsSchema,
} from '../../protocol/api/conversations.ts'
import { deletedConversationSchema } from '../../protocol/api/lines.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import { isId, newId, parseCopyWorkspaceId } from '../../protocol/ids.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access, assertScope } from '../auth.ts'
import { idempotencyOf } from '../idempotency.ts'
import { conversationId, conversationParam, json, problems } from '../openapi.ts'

const create = createRoute({
  method: 'post',
  path: '/conversations',
  summary: 'Start a conversation',
  middleware: access('conversations:write'),
  request: {
    headers: z.object({ 'idempotency-key': z.string().optional() }),
    body: { required: false, content: { 'application/json': { schema: createConversationSchema } } },
  },
  responses: { 201: json(conversationSchema, 'The new conversation'), ...problems },
})

const list = createRoute({
  method: 'get',
  path: '/conversations',
  summary: 'List and search conversations, most recently changed first',
  middleware: access('conversations:read'),
  request: { query: listConversationsQuery },
  responses: { 200: json(conversationListSchema, 'A page of conversations'), ...problems },
})

const search = createRoute({
  method: 'get',
  path: '/search',
  summary:
    'Search messages, answers, calls, outputs and edits, newest first, with excerpts; forks count once',
  middleware: access('conversations:read'),
  request: { query: searchQuery },
  responses: { 200: json(searchResultsSchema, 'The newest events that have all words'), ...problems },
})

const read = createRoute({
  method: 'get',
  path: '/conversations/{id}',
  summary: 'Read a conversation',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(conversationSchema, 'The conversation'), ...problems },
})

const patch = createRoute({
  method: 'patch',
  path: '/conversations/{id}',
  summary: 'Rename a conversation or change its settings',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    body: { required: true, content: { 'application/json': { schema: patchConversationSchema } } },
  },
  responses: { 200: json(conversationSchema, 'The updated conversation'), ...problems },
})

const remove = createRoute({
  method: 'delete',
  path: '/conversations/{id}',
  summary: 'Delete a conversation; its forks keep the inherited history, and it can be undeleted for a while',
  middleware: access('conversations:write'),
  request: { params: conversationParam },
  responses: {
    200: json(deletedConversationSchema, 'The deletion, with the messages removed from the queue'),
    ...problems,
  },
})

/** How long the response waits for the first checkpoint. */
const BEGIN_MS = 2000

export function addConversationRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const { ledger, clock } = deps

  /** The mode `edit` answers approvals in advance, and a hosted agent may change files without asking: both need the scope for it. */
  function assertMayFree(caller: Token, { mode, agent = null }: Settings): void {
    if (mode === 'edit' || agent !== null) assertScope(caller, 'workspace:write')
    const known = deps.listAgents().map(({ name }) => name)
    if (agent !== null && !known.includes(agent))
      throw new WaymarkError(
        'invalid_request',
        `There is no agent named ${agent}. Known: ${known.join(', ')}.`,
      )
  }

  app.openapi(create, async (c) => {
    const { title, workspace_id = deps.workspaceId, ...settings } = c.req.valid('json')
    assertMayFree(c.get('caller'), settings)
    const now = clock.now()
    await refuseForeignCopy(c.get('caller').tenant, workspace_id)
    const { conversation, repeated } = await ledger.create({
      tenant: c.get('caller').tenant,
      conversationId: newId('conv', now),
      segmentId: newId('seg', now),
      workspaceId: workspace_id,
      settings,
      frame: {
        kind: 'conversation.created',
        ...(title === undefined ? {} : { title }),
        workspace_id,
      },
      idempotency: await idempotencyOf(c),
    })
    c.header('Location', `/api/v1/conversations/${conversation.id}`)
    if (repeated) c.header('Idempotency-Replayed', 'true')
    if (!deps.sessions.isHere(workspace_id)) return c.json(conversation, 201)
    const { tenant } = c.get('caller')
    if (!repeated) await begin(tenant, conversation.id)
    // A replayed request may name a conversation that has been deleted since.
    const known = await ledger.conversation(tenant, conversationId(conversation.id)).catch(() => conversation)
    return c.json({ ...conversation, initial_checkpoint: known.initial_checkpoint }, 201)
  })

  /** A working copy belongs to the tenant of the conversation that it was created for (L11). */
  async function refuseForeignCopy(tenant: string, workspaceId: string): Promise<void> {
    const copy = parseCopyWorkspaceId(workspaceId)
    if (copy && !(await ledger.owns(tenant, conversationId(copy.conversationId))))
      throw new WaymarkError('conversation_not_found', 'Working copy not found.')
  }

  /** Takes the first checkpoint (W1). The response doesn't wait longer than BEGIN_MS: large projects take a while. */
  async function begin(tenant: string, id: string): Promise<void> {
    const started = deps.sessions.start(tenant, conversationId(id))
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, BEGIN_MS)
    })
    await Promise.race([started, late])
    clearTimeout(timer)
  }

  app.openapi(list, async (c) => {
    const { limit, cursor, q, workspace_id } = c.req.valid('query')
    const { tenant } = c.get('caller')
    const { items, next } = await ledger.conversations({
      tenant,
      limit,
      workspaceId: workspace_id ?? null,
      after: cursor === undefined ? null : parseListCursor(cursor),
      search: q || null,
    })
    // The first item of the unfiltered list is the current conversation; other pages must query for it.
    const isFirst = cursor === undefined && !q && workspace_id === undefined
    const newest = { tenant, limit: 1, after: null, search: null }
    const current = (isFirst ? items : (await ledger.conversations(newest)).items)[0]?.id ?? null
    return c.json({ items, next_cursor: next ? formatListCursor(next) : null, current }, 200)
  })

  app.openapi(search, async (c) => {
    const { q, conversation_id, kind, author, tool, path, since, until, limit } = c.req.valid('query')
    const byAuthor = author && searchedKinds.filter((one) => (one === 'message') === (author === 'user'))
    const kinds = kind === undefined ? (byAuthor ?? null) : (byAuthor ?? [kind]).filter((one) => one === kind)
    if (kinds?.length === 0) return c.json({ items: [], has_more: false }, 200)
    const { items, more } = await ledger.search({
      tenant: c.get('caller').tenant,
      search: q,
      conversationId: conversation_id === undefined ? null : conversationId(conversation_id),
      kinds,
      tool: tool ?? null,
      path: path ?? null,
      since: since ?? null,
      until: until ?? null,
      limit,
    })
    const found = items.map(({ excerpt, ...hit }) => ({
      conversation_id: hit.conversationId,
      event_number: hit.eventNumber,
      kind: hit.kind,
      tool: hit.tool,
      path: hit.path,
      created_at: hit.createdAt,
      excerpt: excerpt.text,
      match: excerpt.match,
    }))
    return c.json({ items: found, has_more: more }, 200)
  })

  app.openapi(read, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    return c.json(await ledger.conversation(c.get('caller').tenant, id), 200)
  })

  app.openapi(patch, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    const { title, ...settings } = c.req.valid('json')
    const { tenant, name: by } = c.get('caller')
    assertMayFree(c.get('caller'), settings)
    await ledger.change(tenant, id, { settings, by, ...(title === undefined ? {} : { title }) })
    return c.json(await ledger.conversation(tenant, id), 200)
  })

  app.openapi(remove, async (c) => {
    const { tenant, name: by } = c.get('caller')
    const command = { tenant, by, conversationId: conversationId(c.req.valid('param').id) }
    return c.json(await deps.deletions.deleteConversation(command), 200)
  })
}

type ListPlace = NonNullable<ConversationsQuery['after']>

function formatListCursor(place: ListPlace): string {
  return Buffer.from(JSON.stringify([place.updatedAt, place.id])).toString('base64url')
}

const listCursorSchema = z.tuple([
  z.iso.datetime({ precision: 3 }),
  z.string().refine((id) => isId('conv', id)),
])

function parseListCursor(text: string): ListPlace {
  try {
    const [updatedAt, id] = listCursorSchema.parse(JSON.parse(Buffer.from(text, 'base64url').toString()))
    return { updatedAt, id }
  } catch (cause) {
    throw new WaymarkError('bad_cursor', 'Invalid cursor for this list.', { cause })
  }
}
