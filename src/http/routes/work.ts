import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { pagedQuery } from '../../protocol/api/fields.ts'
import {
  adoptedSchema,
  adoptSchema,
  approvedSchema,
  approveSchema,
  blameQuery,
  blameViewSchema,
  checkpointDetailsSchema,
  checkpointListSchema,
  commitSchema,
  committedSchema,
  diffQuery,
  diffViewSchema,
  editsQuery,
  fileEditListSchema,
  fileListSchema,
  fileQuery,
  filesQuery,
  fileViewSchema,
  resetDoneSchema,
  resetSchema,
  restoredSchema,
  restoreSchema,
  sessionViewSchema,
} from '../../protocol/api/work.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { idempotencyOf } from '../idempotency.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'

const headers = z.object({ 'idempotency-key': z.string().optional() })

const changing = {
  ...problems,
  409: problem('A run is active in this workspace, or another restore is in progress'),
  500: problem('The files could not be saved; nothing was changed'),
}

const reading = {
  ...problems,
  409: problem('This server does not hold the workspace'),
  500: problem('The files could not be read'),
}

const checkpointParam = conversationParam.extend({
  checkpoint_id: z.string().meta({ param: { name: 'checkpoint_id', in: 'path' } }),
})

const session = createRoute({
  method: 'get',
  path: '/conversations/{id}/session',
  summary: 'Read the work session: the changes since the last approval',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(sessionViewSchema, 'The session and all earlier ones'), ...reading },
})

const approve = createRoute({
  method: 'post',
  path: '/conversations/{id}/approve',
  summary: 'Approve the current files and open the next work session',
  middleware: access('workspace:write'),
  request: {
    params: conversationParam,
    headers,
    body: { required: false, content: { 'application/json': { schema: approveSchema } } },
  },
  responses: { 200: json(approvedSchema, 'Approved'), ...changing },
})

const reset = createRoute({
  method: 'post',
  path: '/conversations/{id}/reset',
  summary: 'Reset the files to the last approval; the discarded state is kept as a checkpoint',
  middleware: access('workspace:write'),
  request: {
    params: conversationParam,
    headers,
    body: { required: false, content: { 'application/json': { schema: resetSchema } } },
  },
  responses: { 200: json(resetDoneSchema, 'The changed and the skipped files'), ...changing },
})

const restore = createRoute({
  method: 'post',
  path: '/conversations/{id}/restore',
  summary: 'Restore the files to a checkpoint; the current state is kept as a checkpoint',
  middleware: access('workspace:write'),
  request: {
    params: conversationParam,
    headers,
    body: { required: true, content: { 'application/json': { schema: restoreSchema } } },
  },
  responses: { 200: json(restoredSchema, 'The changed and the skipped files'), ...changing },
})

const adopt = createRoute({
  method: 'post',
  path: '/conversations/{id}/adopt',
  summary:
    "Merge the files of another conversation's working copy; the current state is kept as a checkpoint",
  middleware: access('workspace:write'),
  request: {
    params: conversationParam,
    headers,
    body: { required: true, content: { 'application/json': { schema: adoptSchema } } },
  },
  responses: {
    200: json(adoptedSchema, 'The changed files, and those that both sides had changed'),
    ...changing,
  },
})

const checkpoints = createRoute({
  method: 'get',
  path: '/conversations/{id}/checkpoints',
  summary: 'List the checkpoints that can be restored, newest first',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: pagedQuery },
  responses: { 200: json(checkpointListSchema, 'A page of checkpoints'), ...problems },
})

const checkpoint = createRoute({
  method: 'get',
  path: '/conversations/{id}/checkpoints/{checkpoint_id}',
  summary: 'List the files that a checkpoint left out, with reasons',
  middleware: access('conversations:read'),
  request: { params: checkpointParam },
  responses: { 200: json(checkpointDetailsSchema, 'The checkpoint'), ...reading },
})

const edits = createRoute({
  method: 'get',
  path: '/conversations/{id}/edits',
  summary: "List the agent's file edits, each with its message and the checkpoint before it, newest first",
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: editsQuery },
  responses: { 200: json(fileEditListSchema, 'A page of edits'), ...problems },
})

const diff = createRoute({
  method: 'get',
  path: '/conversations/{id}/diff',
  summary: 'Diff two checkpoints, or a checkpoint and the current files',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: diffQuery },
  responses: { 200: json(diffViewSchema, 'The files that differ'), ...reading },
})

const files = createRoute({
  method: 'get',
  path: '/conversations/{id}/files',
  summary: 'List the files at an event, or now, with the changes since then',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: filesQuery },
  responses: { 200: json(fileListSchema, 'The files'), ...reading },
})

const file = createRoute({
  method: 'get',
  path: '/conversations/{id}/files/text',
  summary: 'Read a file at an event, or now, with its changes since then',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: fileQuery },
  responses: { 200: json(fileViewSchema, 'The file'), ...reading },
})

const commit = createRoute({
  method: 'post',
  path: '/conversations/{id}/commit',
  summary:
    "Commit the last approved files to the user's git repository; with dry_run, show what would be committed",
  middleware: access('workspace:write'),
  request: {
    params: conversationParam,
    body: { content: { 'application/json': { schema: commitSchema } } },
  },
  responses: { 200: json(committedSchema, 'The commit'), ...changing },
})

const blame = createRoute({
  method: 'get',
  path: '/conversations/{id}/blame',
  summary: 'Tell who wrote each line of a file: a message and its call, or something outside Waymark',
  middleware: access('conversations:read'),
  request: { params: conversationParam, query: blameQuery },
  responses: { 200: json(blameViewSchema, 'The lines and their authors'), ...reading },
})

export function addWorkRoutes(app: OpenAPIHono<AppEnv>, { sessions, ledger }: AppDependencies): void {
  app.openapi(session, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    return c.json(await sessions.session(c.get('caller').tenant, id), 200)
  })

  app.openapi(approve, async (c) => {
    const { message } = c.req.valid('json') ?? {}
    const command = await commandOf(c, c.req.valid('param').id)
    return c.json(await sessions.approve({ ...command, message: message?.trim() || null }), 200)
  })

  app.openapi(reset, async (c) => {
    const { dry_run = false, include_others = false } = c.req.valid('json') ?? {}
    const command = await commandOf(c, c.req.valid('param').id)
    const done = await sessions.reset({ ...command, dryRun: dry_run, includeOthers: include_others })
    return c.json(done, 200)
  })

  app.openapi(restore, async (c) => {
    const { checkpoint_id, paths, dry_run } = c.req.valid('json')
    const command = await commandOf(c, c.req.valid('param').id)
    const wanted = { checkpointId: checkpoint_id, paths: paths ?? null, dryRun: dry_run ?? false }
    return c.json(await sessions.restore({ ...command, ...wanted }), 200)
  })

  app.openapi(adopt, async (c) => {
    const { from, prefer_other = false, dry_run = false } = c.req.valid('json')
    const command = await commandOf(c, c.req.valid('param').id)
    const other = conversationId(from)
    const { title } = await ledger.conversation(command.tenant, other)
    const wanted = { from: other, title, isOtherPreferred: prefer_other, dryRun: dry_run }
    return c.json(await sessions.adopt({ ...command, ...wanted }), 200)
  })

  app.openapi(checkpoints, async (c) => {
    const { limit, cursor } = c.req.valid('query')
    return c.json(await sessions.checkpoints(queryOf(c, c.req.valid('param').id, limit, cursor)), 200)
  })

  app.openapi(checkpoint, async (c) => {
    const { id, checkpoint_id } = c.req.valid('param')
    if (!/^[0-9a-f]{7,40}$/.test(checkpoint_id)) {
      throw new WaymarkError('checkpoint_not_found', 'This conversation has no such checkpoint.')
    }
    return c.json(await sessions.checkpoint(c.get('caller').tenant, conversationId(id), checkpoint_id), 200)
  })

  app.openapi(edits, async (c) => {
    const { limit, cursor, path } = c.req.valid('query')
    const query = queryOf(c, c.req.valid('param').id, limit, cursor)
    return c.json(await sessions.edits({ ...query, path: path ?? null }), 200)
  })

  app.openapi(files, async (c) => {
    const { at, q, limit } = c.req.valid('query')
    const query = {
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
    }
    return c.json(await sessions.files({ ...query, at: at ?? null, search: q, limit }), 200)
  })

  app.openapi(file, async (c) => {
    const { at, path } = c.req.valid('query')
    const query = {
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
    }
    return c.json(await sessions.file({ ...query, at: at ?? null, path }), 200)
  })

  app.openapi(commit, async (c) => {
    const {
      message,
      branch,
      dry_run = false,
      with_current = false,
      run_hooks = false,
    } = c.req.valid('json') ?? {}
    const id = conversationId(c.req.valid('param').id)
    const { tenant, name: by } = c.get('caller')
    const { title } = await ledger.conversation(tenant, id)
    const how = { by, dryRun: dry_run, withCurrent: with_current, runHooks: run_hooks }
    const wanted = { message: message ?? null, branch: branch ?? null, ...how }
    return c.json(await sessions.commit({ tenant, conversationId: id, title, ...wanted }), 200)
  })

  app.openapi(blame, async (c) => {
    const view = await sessions.blame({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      path: c.req.valid('query').path,
    })
    return c.json(view, 200)
  })

  app.openapi(diff, async (c) => {
    const { from, to, path } = c.req.valid('query')
    const view = await sessions.diff({
      tenant: c.get('caller').tenant,
      conversationId: conversationId(c.req.valid('param').id),
      from: from ?? null,
      to: to ?? null,
      path: path ?? null,
    })
    return c.json(view, 200)
  })
}

async function commandOf(c: Context<AppEnv>, id: string) {
  const { tenant, name } = c.get('caller')
  return { tenant, by: name, conversationId: conversationId(id), idempotency: await idempotencyOf(c) }
}

const CURSOR = /^\d{4}-[\d:.TZ-]+~\d{1,15}~\d{1,15}$/

function queryOf(c: Context<AppEnv>, id: string, limit: number, cursor: string | undefined) {
  if (cursor !== undefined && !CURSOR.test(cursor)) {
    throw new WaymarkError('bad_cursor', 'Invalid cursor for this list.')
  }
  return {
    tenant: c.get('caller').tenant,
    conversationId: conversationId(id),
    limit,
    cursor: cursor ?? null,
  }
}
