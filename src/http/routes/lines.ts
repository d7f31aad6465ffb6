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
    'The new conversation shares the history up to that point; no events are copied, and later changes to one do not ' +
    'affect the other. Without `event_number` and `message_id`, the fork starts after the last event.',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    headers: z.object({ 'idempotency-key': z.string().optional() }),
    body: { required: false, content: { 'application/json': { schema: forkSchema } } },
  },
  responses: {
    201: json(forkedSchema, 'The new conversation, and the result of restoring the files'),
    ...problems,
    409: problem('A run is active in this workspace, or this server does not hold its files'),
    500: problem('The files could not be saved or copied; nothing was changed'),
  },
})

const branches = createRoute({
  method: 'get',
  path: '/conversations/{id}/branches',
  summary: 'List the forks of a conversation',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(branchListSchema, 'The forks, oldest first'), ...problems },
})

const tree = createRoute({
  method: 'get',
  path: '/conversations/{id}/tree',
  summary: 'Read the whole family: the root and all its forks',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(familySchema, 'The members, each with its parent'), ...problems },
})

const remove = createRoute({
  method: 'delete',
  path: '/conversations/{id}/messages/{message_id}',
  summary: 'Delete a user message and everything after it',
  description:
    'An active run is stopped first, and the queue is cleared. The files are not changed: the response names the ' +
    'checkpoint to restore them to. The deletion can be undone until `undo_until`.',
  middleware: access('conversations:write'),
  request: { params: messageParam },
  responses: {
    200: json(deletedMessageSchema, 'The deletion'),
    ...problems,
    409: problem('The message is an answer; only user messages can be deleted'),
  },
})

const undelete = createRoute({
  method: 'post',
  path: '/conversations/{id}/undelete',
  summary: 'Undelete a message with everything after it, or a conversation',
  description:
    'The conversation returns to the line with this message that it left most recently. Newer messages leave the line, ' +
    'and can be undeleted in the same way.',
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    body: { required: false, content: { 'application/json': { schema: undeleteSchema } } },
  },
  responses: {
    200: json(undeletedSchema, 'Undeleted'),
    ...problems,
    409: problem('The message or conversation is not deleted'),
  },
})

const compare = createRoute({
  method: 'get',
  path: '/conversations/{id}/compare/{other}',
  summary: 'Compare two conversations: where they diverge, the messages on each side, and the files',
  middleware: access('conversations:read'),
  request: {
    params: conversationParam.extend({ other: z.string().meta({ param: { name: 'other', in: 'path' } }) }),
    query: compareQuery,
  },
  responses: { 200: json(comparisonSchema, 'The comparison'), ...problems },
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
      at: parsePlace(event_number, message_id),
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
      ...(await messagesAfter({ tenant, conversationId: conversation, line, after: parted, limit })),
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

  async function messagesAfter(query: {
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

function parsePlace(eventNumber: number | undefined, messageId: string | undefined): Place | null {
  if (messageId !== undefined) return { before: messageId }
  return eventNumber === undefined ? null : { after: eventNumber }
}

function commandOf(c: Context<AppEnv>, id: string) {
  const { tenant, name } = c.get('caller')
  return { tenant, by: name, conversationId: conversationId(id) }
}
