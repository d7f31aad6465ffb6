import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { StoredResponse } from '../../core/responses.ts'
import {
  contextQuery,
  contextSchema,
  pagedQuery,
  responseDetailsSchema,
  responseListSchema,
} from '../../protocol/api.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import { requireScope } from '../auth.ts'
import type { AppDependencies, AppEnv } from '../env.ts'
import { conversationId, conversationParam, json, problems } from '../openapi.ts'

const list = createRoute({
  method: 'get',
  path: '/conversations/{id}/responses',
  summary: 'What the model was asked along the line, the last first',
  middleware: [requireScope('conversations:read')] as const,
  request: { params: conversationParam, query: pagedQuery },
  responses: { 200: json(responseListSchema, 'A page of responses'), ...problems },
})

const read = createRoute({
  method: 'get',
  path: '/conversations/{id}/responses/{response_id}',
  summary: 'One round trip to the model: what was sent, to the byte, and what came back',
  middleware: [requireScope('conversations:read')] as const,
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
  summary: 'What the model saw at an event, by origin and tokens; without one, at the last',
  middleware: [requireScope('conversations:read')] as const,
  request: { params: conversationParam, query: contextQuery },
  responses: { 200: json(contextSchema, 'The last request up to there'), ...problems },
})

/** What the model was told (C1, C8). */
export function addContextRoutes(app: OpenAPIHono<AppEnv>, { responses }: AppDependencies): void {
  app.openapi(list, async (c) => {
    const { limit, cursor } = c.req.valid('query')
    if (cursor !== undefined && !/^resp_[0-9a-z]{26}$/.test(cursor)) {
      throw new WaymarkError('bad_cursor', 'This is no cursor of this list.')
    }
    const { items, next } = await responses.list({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      limit,
      cursor: cursor ?? null,
    })
    return c.json({ items: items.map(summaryOf), next_cursor: next }, 200)
  })

  app.openapi(read, async (c) => {
    const { id, response_id } = c.req.valid('param')
    const found = await responses.get(c.get('caller').tenant, conversationId(id), response_id)
    const { request, response } = found
    return c.json({ ...detailsOf(found), request, response }, 200)
  })

  app.openapi(context, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    const { at } = c.req.valid('query')
    const { tenant } = c.get('caller')
    const upTo = at === undefined ? {} : { upTo: at }
    const { items } = await responses.list({ tenant, conversationId: id, limit: 1, cursor: null, ...upTo })
    const [last] = items
    if (!last)
      throw new WaymarkError('response_not_found', 'The model has not been asked anything up to there.')
    const { request } = await responses.get(tenant, id, last.id)
    const { parts } = last.details
    const tokens = (sent: boolean) =>
      parts.reduce((sum, part) => sum + (part.sent === sent ? part.tokens : 0), 0)
    return c.json(
      { ...summaryOf(last), parts, request, tokens: { sent: tokens(true), not_sent: tokens(false) } },
      200,
    )
  })
}

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
  }
}

function detailsOf(found: StoredResponse) {
  const { question, provider, workspace_id, parts } = found.details
  return { ...summaryOf(found), question, provider, workspace_id, parts }
}
