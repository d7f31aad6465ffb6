import { createRoute, type OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import {
  operationListSchema,
  operationsQuery,
  type Undo,
  undoneSchema,
  undoSchema,
} from '../../protocol/api/operations.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { conversationId, json, problem, problems } from '../openapi.ts'

const list = createRoute({
  method: 'get',
  path: '/operations',
  summary: 'List what people have changed, newest first, and whether it can be undone',
  middleware: access('conversations:read'),
  request: { query: operationsQuery },
  responses: { 200: json(operationListSchema, 'A page of operations'), ...problems },
})

const body = { content: { 'application/json': { schema: undoSchema } } }
const responses = {
  200: json(undoneSchema, 'The operation'),
  ...problems,
  409: problem('There is nothing to undo, or files are in use'),
}

const undo = createRoute({
  method: 'post',
  path: '/operations/undo',
  summary: 'Undo the last operation, or the one that is named',
  middleware: access('conversations:write'),
  request: { body },
  responses,
})

const redo = createRoute({
  method: 'post',
  path: '/operations/redo',
  summary: 'Redo the operation that was undone last, or the one that is named',
  middleware: access('conversations:write'),
  request: { body },
  responses,
})

export function addOperationRoutes(app: OpenAPIHono<AppEnv>, { undoRedo }: AppDependencies): void {
  app.openapi(list, async (c) => {
    const { limit, cursor, conversation_id } = c.req.valid('query')
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor))
      throw new WaymarkError('bad_cursor', 'Invalid cursor for this list.')
    const of = conversation_id === undefined ? null : conversationId(conversation_id)
    const before = cursor === undefined ? null : Number(cursor)
    const { tenant } = c.get('caller')
    return c.json(await undoRedo.list({ tenant, conversationId: of, before, limit }), 200)
  })
  app.openapi(undo, async (c) => c.json(await undoRedo.undo(commandOf(c, c.req.valid('json') ?? {})), 200))
  app.openapi(redo, async (c) => c.json(await undoRedo.redo(commandOf(c, c.req.valid('json') ?? {})), 200))
}

function commandOf(c: Context<AppEnv>, { operation, conversation_id }: Undo) {
  const { tenant, name: by, scopes } = c.get('caller')
  const of = conversation_id === undefined ? null : conversationId(conversation_id)
  const mayChangeFiles = scopes.includes('workspace:write')
  return { tenant, by, conversationId: of, no: operation ?? null, mayChangeFiles }
}
