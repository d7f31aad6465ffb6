import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import { chainExpiry } from '../../core/request-plan.ts'
import type { StoredResponse } from '../../core/responses.ts'
import {
  contextQuery,
  contextSchema,
  type MemoryView,
  memorySchema,
  responseDetailsSchema,
  responseListSchema,
  usageTotalSchema,
  wantMemorySchema,
} from '../../protocol/api/context.ts'
import type { MemorySettings } from '../../protocol/api/conversations.ts'
import { pagedQuery } from '../../protocol/api/fields.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'

const list = createRoute({
  method: 'get',
  path: '/conversations/{id}/responses',
  summary: 'List the model requests of the line, newest first',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: pagedQuery },
  responses: { 200: json(responseListSchema, 'A page of responses'), ...problems },
})

const usage = createRoute({
  method: 'get',
  path: '/conversations/{id}/usage',
  summary: 'Add up the tokens of all model requests of the line',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(usageTotalSchema, 'The tokens'), ...problems },
})

const read = createRoute({
  method: 'get',
  path: '/conversations/{id}/responses/{response_id}',
  summary: 'Read one model request and its response, byte for byte',
  // Frames redact secrets; response records hold the unredacted request.
  middleware: access('records:read'),
  request: {
    params: conversationParam.extend({
      response_id: z.string().meta({ param: { name: 'response_id', in: 'path' } }),
    }),
  },
  responses: { 200: json(responseDetailsSchema, 'The response'), ...problems },
})

const context = createRoute({
  method: 'get',
  path: '/conversations/{id}/context',
  summary: 'Read the context sent to the model at an event, or most recently, by origin and tokens',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: contextQuery },
  responses: { 200: json(contextSchema, 'The last request up to that event'), ...problems },
})

const memory = createRoute({
  method: 'get',
  path: '/conversations/{id}/memory',
  summary: 'Read the memory strategy and the memory checkpoints',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(memorySchema, 'The memory'), ...problems },
})

const want = createRoute({
  method: 'post',
  path: '/conversations/{id}/memory',
  summary: 'Apply a memory strategy once, with the next message, even if the context is within its limit',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    body: { required: true, content: { 'application/json': { schema: wantMemorySchema } } },
  },
  responses: { 202: json(memorySchema, 'Scheduled for the next message'), ...problems },
})

const undo = createRoute({
  method: 'post',
  path: '/conversations/{id}/memory/undo',
  summary: 'Send the full history again from the next message on; sets the strategy to none',
  middleware: access('conversations:write'),
  request: { params: conversationParam },
  responses: {
    200: json(memorySchema, 'The memory'),
    ...problems,
    409: problem('A run is active in this conversation'),
  },
})

/** Model requests, context and memory (C1, C8). */
export function addContextRoutes(
  app: OpenAPIHono<AppEnv>,
  { responses, ledger, queue, preview, sessions }: AppDependencies,
): void {
  async function memoryOf(tenant: string, id: ConversationId): Promise<MemoryView> {
    const settings = (await ledger.conversation(tenant, id)).memory as MemorySettings | null
    const marks = await responses.memories(tenant, id)
    return {
      strategy: settings?.strategy ?? 'none',
      max_tokens: settings?.max_tokens ?? null,
      wanted: settings?.wanted ?? null,
      items: marks.map(({ eventNumber, checkpoint, summary, createdAt }) => ({
        event_number: eventNumber,
        checkpoint,
        summary,
        created_at: createdAt,
      })),
    }
  }

  app.openapi(memory, async (c) => {
    return c.json(await memoryOf(c.get('caller').tenant, conversationId(c.req.valid('param').id)), 200)
  })

  app.openapi(want, async (c) => {
    const { tenant } = c.get('caller')
    const id = conversationId(c.req.valid('param').id)
    const { memory: before } = await ledger.conversation(tenant, id)
    const wanted = c.req.valid('json').strategy
    await ledger.change(tenant, id, {
      settings: { memory: { ...before, wanted } as MemorySettings },
      by: c.get('caller').name,
    })
    return c.json(await memoryOf(tenant, id), 202)
  })

  app.openapi(undo, async (c) => {
    const { tenant } = c.get('caller')
    const id = conversationId(c.req.valid('param').id)
    // An active run keeps the context it started with.
    if ((await queue.read(tenant, id)).active) {
      throw new WaymarkError('conversation_busy', 'A run is active. Stop it, or wait until it ends.')
    }
    const { items } = await memoryOf(tenant, id)
    if (items.length > 0 && items[0]?.checkpoint.strategy !== 'none') {
      const counts = { tokens_before: 0, tokens_after: 0, items_before: 0, items_after: 0 }
      const turns = { turns_before: 0, turns_after: 0, kept_from_seq: 1, dropped: [] }
      const checkpoint = { strategy: 'none' as const, trigger_reason: 'undone', ...counts, ...turns }
      const frames = [{ kind: 'memory.checkpoint' as const, checkpoint }]
      const appended = await ledger.append({ tenant, conversationId: id, run: null, frames })
      if (!appended.ok) throw new WaymarkError(appended.refusal, 'The conversation no longer exists.')
    }
    await ledger.change(tenant, id, { settings: { memory: { strategy: 'none' } }, by: c.get('caller').name })
    return c.json(await memoryOf(tenant, id), 200)
  })

  app.openapi(list, async (c) => {
    const { limit, cursor } = c.req.valid('query')
    if (cursor !== undefined && !/^resp_[0-9a-z]{26}$/.test(cursor)) {
      throw new WaymarkError('bad_cursor', 'Invalid cursor for this list.')
    }
    const { items, next } = await responses.list({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      limit,
      cursor: cursor ?? null,
    })
    return c.json({ items: items.map(summaryOf), next_cursor: next }, 200)
  })

  app.openapi(usage, async (c) => {
    const { tenant } = c.get('caller')
    const total = await responses.usage(tenant, conversationId(c.req.valid('param').id))
    const { requests, input, output, cached, cost } = total
    return c.json({ requests, input_tokens: input, output_tokens: output, cached_tokens: cached, cost }, 200)
  })

  app.openapi(read, async (c) => {
    const { id, response_id } = c.req.valid('param')
    const found = await responses.get(c.get('caller').tenant, conversationId(id), response_id)
    const { request, response } = found
    return c.json({ ...detailsOf(found), request, response }, 200)
  })

  async function nextOf(tenant: string, id: ConversationId) {
    const { workspace_id } = await ledger.conversation(tenant, id)
    // This server can't read files of a workspace it does not hold.
    if (workspace_id !== null && !sessions.isHere(workspace_id)) return null
    return await preview({ tenant, conversationId: id, workspaceId: workspace_id })
  }

  app.openapi(context, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    const { at } = c.req.valid('query')
    const { tenant, scopes } = c.get('caller')
    const upTo = at === undefined ? {} : { upTo: at }
    const { items } = await responses.list({ tenant, conversationId: id, limit: 1, cursor: null, ...upTo })
    const [last] = items
    if (!last) throw new WaymarkError('response_not_found', 'No model request up to that event.')
    const mayRead = scopes.includes('records:read')
    const request = mayRead ? (await responses.get(tenant, id, last.id)).request : null
    const { parts, held = noneHeld } = last.details
    const tokens = (sent: boolean) =>
      parts.reduce((sum, part) => sum + (part.sent === sent ? part.tokens : 0), 0)
    const tokensOf = { sent: tokens(true), not_sent: tokens(false) + held.tokens }
    const next = at === undefined ? await nextOf(tenant, id) : null
    return c.json({ ...summaryOf(last), parts, held, request, tokens: tokensOf, next }, 200)
  })
}

/** Records of earlier versions list held items among the parts. */
const noneHeld = { parts: 0, tokens: 0 }

function summaryOf({ id, runId, conversationId: of, eventNumber, createdAt, details, end }: StoredResponse) {
  return {
    response_id: id,
    run_id: runId,
    message_id: details.message_id,
    conversation_id: of,
    event_number: eventNumber,
    provider_id: end?.providerId ?? null,
    previous_response_id: details.previous_response_id,
    chain: details.chain,
    model: details.model,
    status: end?.status ?? ('in_progress' as const),
    usage: end?.usage ?? null,
    error: end?.error ?? null,
    created_at: createdAt,
    ended_at: end?.endedAt ?? null,
    expires_at: isKept(details, end) ? chainExpiry(end?.endedAt ?? createdAt) : null,
  }
}

/** True if a later request can continue from this response. */
function isKept(details: StoredResponse['details'], end: StoredResponse['end']): boolean {
  return details.chain !== 'not_kept' && end?.status === 'completed' && end.providerId !== null
}

function detailsOf(found: StoredResponse) {
  const { question, provider, workspace_id, rag_scope, parts, held = noneHeld } = found.details
  const { repository = null, branch = null, languages = [] } = found.details
  const place = { workspace_id, repository, branch, languages }
  return { ...summaryOf(found), question, provider, ...place, rag_scope, parts, held }
}
