import { createRoute, type OpenAPIHono } from '@hono/zod-openapi'
import { timestamp } from '../../core/clock.ts'
import { statsQuery, statsSchema } from '../../protocol/api/stats.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { conversationId, json, problems } from '../openapi.ts'

const DEFAULT_MS = 30 * 24 * 60 * 60 * 1000

const stats = createRoute({
  method: 'get',
  path: '/stats',
  summary:
    'Count tokens, model and tool time, calls, edits and compactions: by day, conversation, model, agent and tool',
  middleware: access('conversations:read'),
  request: { query: statsQuery },
  responses: { 200: json(statsSchema, 'The counts; default: of the last 30 days'), ...problems },
})

export function addStatsRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  app.openapi(stats, async (c) => {
    const now = deps.clock.now()
    const {
      since = timestamp(now - DEFAULT_MS),
      until = timestamp(now + 1),
      conversation_id,
    } = c.req.valid('query')
    const of = conversation_id === undefined ? null : conversationId(conversation_id)
    const { tenant } = c.get('caller')
    return c.json(await deps.stats.read({ tenant, conversationId: of, since, until }), 200)
  })
}
