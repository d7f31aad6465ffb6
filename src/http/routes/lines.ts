import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { Place } from '../../core/ledger.ts'
import { headOf, type Line, partAt, placeOnLine } from '../../core/line.ts'
import type { Message } from '../../protocol/api/ledger.ts'
import {
  branchListSchema,
  compareQuery,
  comparisonSchema,
  deletedMessageSchema,
  familySchema,
  forkedSchema,
  forkSchema,
  undeletedSchema,
  undeleteSchema,
} from '../../protocol/api/lines.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { idempotencyOf } from '../idempotency.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'

const messageParam = conversationParam.extend({
  message_id: z.string().meta({ param: { name: 'message_id', in: 'path' } }),
})

const fork = createRoute({
  method: 'post',
  path: '/conversations/{id}/fork',
  summary: 'Fork a conversation after an event, or just before a message',
  description:
    'The new conversation shares the history up to there; nothing is copied, and what either does later does not ' +
    'touch the other. Without `event_number` and `message_id` it is forked after the last event.',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    headers: z.object({ 'idempotency-key': z.string().optional() }),
    body: { required: false, content: { 'application/json': { schema: forkSchema } } },
  },
  responses: {
    201: json(forkedSchema, 'The new conversation, and what was done with the files'),
    ...problems,
    409: problem('The agent is at work in this workspace, or its files are not here'),
    500: problem('The files could not be saved or copied, and so nothing was changed'),
  },
})

const branches = createRoute({
  method: 'get',
  path: '/conversations/{id}/branches',
  summary: 'The conversations that were forked from this one',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(branchListSchema, 'Its forks, the oldest first'), ...problems },
})

const tree = createRoute({
  method: 'get',
  path: '/conversations/{id}/tree',
  summary: 'The whole family: the root, and all that were forked from it',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(familySchema, 'Its members, each with its parent'), ...problems },
})

const remove = createRoute({
  method: 'delete',
  path: '/conversations/{id}/messages/{message_id}',
  summary: "Delete a person's message and all that came after it",
  description:
    'A run that is active is stopped first, and the queue is cleared. The files stay as they are: the answer names the ' +
    'checkpoint to restore them to. Until `undo_until` it can be undone.',
  middleware: access('conversations:write'),
  request: { params: messageParam },
  responses: {
    200: json(deletedMessageSchema, 'What was deleted'),
    ...problems,
    409: problem('It is an answer: only messages of people can be deleted'),
  },
})

const undelete = createRoute({
  method: 'post',
  path: '/conversations/{id}/undelete',
  summary: 'Bring back a deleted message with all that came after it, or a deleted conversation',
  description:
    'The conversation goes back to the line that it left last of those with this message. What was said since then leaves ' +
    'the line, and can be brought back the same way.',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    body: { required: false, content: { 'application/json': { schema: undeleteSchema } } },
  },
  responses: {
    200: json(undeletedSchema, 'It is back'),
    ...problems,
    409: problem('It has not been deleted'),
  },
})

const compare = createRoute({
  method: 'get',
  path: '/conversations/{id}/compare/{other}',
  summary: 'Where two conversations part, what was said since on each side, and how their files differ',
  middleware: access('conversations:read'),
  request: {
    params: conversationParam.extend({ other: z.string().meta({ param: { name: 'other', in: 'path' } }) }),
    query: compareQuery,
  },
  responses: { 200: json(comparisonSchema, 'The two, side by side'), ...problems },
})

export function addLineRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const { ledger, forks, deletions, sessions } = deps

  app.openapi(fork, async (c) => {
    const { event_number, message_id, title, files } = c.req.valid('json') ?? { files: 'keep' }
    const { tenant, name: by, scopes } = c.get('caller')
    if (files !== 'keep' && !scopes.includes('workspace:write')) {
      throw new WaymarkError('missing_scope', 'The token lacks the scope workspace:write.')
    }
    const { conversation, repeated, restored } = await forks.fork({
      tenant,
      by,
      conversationId: conversationId(c.req.valid('param').id),
      at: placeOf(event_number, message_id),
      title,
      files,
      idempotency: await idempotencyOf(c),
    })
    c.header('Location', `/api/v1/conversations/${conversation.id}`)
    if (repeated) c.header('Idempotency-Replayed', 'true')
    return c.json({ ...conversation, restored }, 201)
  })

  app.openapi(branches, async (c) => {
    const found = await ledger.branches(c.get('caller').tenant, conversationId(c.req.valid('param').id))
    const items = found.map((branch) => ({
      conversation_id: branch.conversationId,
      from_event_number: branch.fromEventNumber,
      created_at: branch.createdAt,
    }))
    return c.json({ items }, 200)
  })

  app.openapi(tree, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    const found = await ledger.family(c.get('caller').tenant, id)
    const items = found.map((member) => ({
      conversation_id: member.id,
      title: member.title,
      parent: member.parent,
      head_event_number: member.headEventNumber,
      workspace_id: member.workspaceId,
      is_deleted: member.isDeleted,
      created_at: member.createdAt,
      updated_at: member.updatedAt,
    }))
    const root = items.find((item) => item.parent === null)?.conversation_id ?? id
    return c.json({ root, items }, 200)
  })

  app.openapi(remove, async (c) => {
    const { id, message_id: messageId } = c.req.valid('param')
    return c.json(await deletions.deleteMessage({ ...commandOf(c, id), messageId }), 200)
  })

  app.openapi(undelete, async (c) => {
    const command = commandOf(c, c.req.valid('param').id)
    const { message_id: messageId } = c.req.valid('json') ?? {}
    const done =
      messageId === undefined
        ? await deletions.undeleteConversation(command)
        : await deletions.undeleteMessage({ ...command, messageId })
    return c.json(done, 200)
  })

  app.openapi(compare, async (c) => {
    const { id, other } = c.req.valid('param')
    const { limit, diff } = c.req.valid('query')
    const { tenant } = c.get('caller')
    const [from, to] = [conversationId(id), conversationId(other)]
    const lines = [await ledger.line(tenant, from), await ledger.line(tenant, to)] as const
    const parted = placeOnLine(lines[0], lines[1])?.after ?? 0
    const files = await sessions.compare({ tenant, from, to, isDetailed: diff === 'true' })
    const side = async (conversation: ConversationId, line: Line, checkpoint: string | null) => ({
      conversation_id: conversation,
      head_event_number: headOf(line),
      checkpoint_id: checkpoint,
      ...(await messagesBehind({ tenant, conversationId: conversation, line, after: parted, limit })),
    })
    return c.json(
      {
        parted_after: parted,
        from: await side(from, lines[0], files?.from ?? null),
        to: await side(to, lines[1], files?.to ?? null),
        files: files?.files ?? null,
      },
      200,
    )
  })

  async function messagesBehind(query: {
    tenant: string
    conversationId: ConversationId
    line: Line
    after: number
    limit: number
  }): Promise<{ messages: Message[]; has_more: boolean }> {
    const { tenant, conversationId: id, line, after, limit } = query
    const part = partAt(line, after)
    const cursor = part ? { segmentId: part.segmentId, seq: after } : null
    const { items, next } = await ledger.messages({ tenant, conversationId: id, cursor, limit })
    return { messages: items, has_more: next !== null }
  }
}

function placeOf(eventNumber: number | undefined, messageId: string | undefined): Place | null {
  if (messageId !== undefined) return { before: messageId }
  return eventNumber === undefined ? null : { after: eventNumber }
}

function commandOf(c: Context<AppEnv>, id: string) {
  const { tenant, name } = c.get('caller')
  return { tenant, by: name, conversationId: conversationId(id) }
}
