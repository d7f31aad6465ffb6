import { createRoute, type OpenAPIHono } from '@hono/zod-openapi'
import { pagedQuery } from '../../protocol/api/fields.ts'
import { auditListSchema, collectionReportSchema, collectSchema } from '../../protocol/api/upkeep.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { json, problems } from '../openapi.ts'

const collect = createRoute({
  method: 'post',
  path: '/gc',
  summary: 'Remove everything that no line reaches; also runs every hour',
  description:
    'With `dry_run` it only counts. With `now` it ignores the retention time: deletions in this tenant can no longer be ' +
    'undone.',
  middleware: access('admin'),
  request: { body: { required: false, content: { 'application/json': { schema: collectSchema } } } },
  responses: { 200: json(collectionReportSchema, 'The objects that were removed, or would be'), ...problems },
})

const audit = createRoute({
  method: 'get',
  path: '/audit',
  summary: 'List deletions and collections, with time and caller, newest first',
  middleware: access('admin'),
  request: { query: pagedQuery },
  responses: { 200: json(auditListSchema, 'A page of entries'), ...problems },
})

/** Routes for operators. */
export function addUpkeepRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  app.openapi(collect, async (c) => {
    const { dry_run: isDryRun = false, now = false } = c.req.valid('json') ?? {}
    const { tenant: of, name: by } = c.get('caller')
    return c.json(await deps.collector.collect({ by, of, isDryRun, now }), 200)
  })

  app.openapi(audit, async (c) => {
    const { limit, cursor } = c.req.valid('query')
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
      throw new WaymarkError('bad_cursor', 'Invalid cursor for this list.')
    }
    const { tenant } = c.get('caller')
    const before = cursor === undefined ? null : Number(cursor)
    const { items, next } = await deps.collection.audit({ tenant, limit, before })
    return c.json(
      {
        items: items.map(({ at, by, action, conversationId, details }) => ({
          at,
          by,
          action,
          conversation_id: conversationId,
          details,
        })),
        next_cursor: next === null ? null : String(next),
      },
      200,
    )
  })
}
