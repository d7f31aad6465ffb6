import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Hono } from 'hono'
import { keepTerminalSchema, terminalId, terminalSchema } from '../../protocol/api/terminals.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access, assertScope, requireScope } from '../auth.ts'
import { json, problems } from '../openapi.ts'

const params = z.object({ id: terminalId })

const keep = createRoute({
  method: 'put',
  path: '/terminals/{id}',
  summary:
    'Record an agent that runs in its own terminal; repeat it at least once a minute while the agent runs',
  description:
    'Requests of the agent to `/gateway/{key}/{upstream}/…` are passed on to that upstream and recorded. Model servers other ' +
    "than the server's own need the scope `admin`.",
  middleware: access('workspace:write'),
  request: {
    params,
    body: { required: true, content: { 'application/json': { schema: keepTerminalSchema } } },
  },
  responses: { 200: json(terminalSchema, 'The conversations of the agent so far'), ...problems },
})

const end = createRoute({
  method: 'delete',
  path: '/terminals/{id}',
  summary: 'End the recording of an agent; its unfinished runs become incomplete',
  middleware: [requireScope('workspace:write')] as const,
  request: { params },
  responses: { 200: json(terminalSchema, 'The conversations of the agent'), ...problems },
})

export function addTerminalRoutes(app: OpenAPIHono<AppEnv>, { gateway }: AppDependencies): void {
  app.openapi(keep, (c) => {
    const { tenant, scopes } = c.get('caller')
    const { id } = c.req.valid('param')
    const { key, agent, upstreams } = c.req.valid('json')
    assertScope({ scopes }, 'conversations:write')
    const origins = Object.fromEntries(
      Object.entries(upstreams).map(([name, url]) => [name, new URL(url).origin]),
    )
    const isForeign = Object.values(origins).some((origin) => !gateway.origins.includes(origin))
    if (isForeign && !scopes.includes('admin')) {
      throw new WaymarkError(
        'missing_scope',
        'Your token needs the scope admin to use model servers that are not in the settings.',
      )
    }
    return c.json(gateway.keep({ tenant, id, key, agent, upstreams: origins }), 200)
  })
  app.openapi(end, async (c) => {
    return c.json(await gateway.end(c.get('caller').tenant, c.req.valid('param').id), 200)
  })
}

/** Not part of our API: requests below this path have the form of the provider's API. */
export function addGateway(app: Hono<AppEnv>, { gateway }: AppDependencies): void {
  app.all('/gateway/*', async (c) => {
    await gateway.serve(c.env.incoming, c.env.outgoing)
    return RESPONSE_ALREADY_SENT
  })
}
