import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { type AttachmentStore, imageTypeOf } from '../../core/attachments.ts'
import { commandPrefix } from '../../core/questions.ts'
import type { Attachment, MessageExtras } from '../../core/queue.ts'
import { redactText } from '../../core/redact.ts'
import { workspaceNotHere } from '../../core/work-sessions.ts'
import {
  acceptedMessageSchema,
  answerApprovalSchema,
  attachmentViewSchema,
  editQueuedSchema,
  outputViewSchema,
  questionSchema,
  queueSchema,
  ruleListSchema,
  type SendMessage,
  sendMessageSchema,
  stoppedSchema,
} from '../../protocol/api/runs.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import { type ConversationId, isId, newId, type RunId } from '../../protocol/ids.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { access } from '../auth.ts'
import { idempotencyOf } from '../idempotency.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'
import { queueView } from '../queue-view.ts'
import { streamRun } from '../run-stream/sse-run.ts'
import { wantsStream } from '../sse.ts'

const runParam = conversationParam.extend({
  run_id: z
    .string()
    .meta({ param: { name: 'run_id', in: 'path' }, example: 'run_01m7ge5wdas4rvsp14pjg3nkaf' }),
})

const send = createRoute({
  method: 'post',
  path: '/conversations/{id}/messages',
  summary: 'Send a message; it is queued and starts a run',
  description:
    'Responds immediately with the queue position. With `Accept: text/event-stream` the response is a stream: ' +
    "an event named `accepted` with the same fields, then the run's frames up to its terminal frame.",
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    headers: z.object({ 'idempotency-key': z.string().optional() }),
    body: { required: true, content: { 'application/json': { schema: sendMessageSchema } } },
  },
  responses: {
    202: json(acceptedMessageSchema, 'Accepted'),
    ...problems,
    429: problem('Ten messages are already waiting; retry after Retry-After seconds'),
  },
})

const attachmentParam = conversationParam.extend({
  sha256: z.string().meta({ param: { name: 'sha256', in: 'path' } }),
})

const attachment = createRoute({
  method: 'get',
  path: '/conversations/{id}/attachments/{sha256}',
  summary: 'Read an attachment of a message on this line or in the queue',
  middleware: access('conversations:read'),
  request: { params: attachmentParam },
  responses: { 200: json(attachmentViewSchema, 'The attachment'), ...problems },
})

const outputParam = conversationParam.extend({
  tool_call_id: z.string().meta({ param: { name: 'tool_call_id', in: 'path' } }),
})

const output = createRoute({
  method: 'get',
  path: '/conversations/{id}/outputs/{tool_call_id}',
  summary: 'Read the full output of a tool call, which its frame may truncate',
  middleware: access('conversations:read'),
  request: { params: outputParam },
  responses: { 200: json(outputViewSchema, 'The output'), ...problems },
})

const queue = createRoute({
  method: 'get',
  path: '/conversations/{id}/queue',
  summary: 'Read the active run and the waiting messages',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(queueSchema, 'The queue'), ...problems },
})

const remove = createRoute({
  method: 'delete',
  path: '/conversations/{id}/queue/{run_id}',
  summary: 'Remove a waiting message from the queue',
  middleware: access('conversations:write'),
  request: { params: runParam },
  responses: { 204: { description: 'Removed' }, ...problems },
})

const edit = createRoute({
  method: 'patch',
  path: '/conversations/{id}/queue/{run_id}',
  summary: 'Edit a waiting message, or move it in the queue',
  middleware: access('conversations:write'),
  request: {
    params: runParam,
    body: { required: true, content: { 'application/json': { schema: editQueuedSchema } } },
  },
  responses: { 200: json(queueSchema, 'The updated queue'), ...problems },
})

const cancel = createRoute({
  method: 'post',
  path: '/conversations/{id}/runs/{run_id}/cancel',
  summary: 'Cancel a run, active or waiting',
  middleware: access('conversations:write'),
  request: { params: runParam },
  responses: { 202: json(stoppedSchema, 'The run will end as cancelled'), ...problems },
})

const stop = createRoute({
  method: 'post',
  path: '/conversations/{id}/stop',
  summary: 'Stop the current run; the next message in the queue starts automatically',
  middleware: access('conversations:write'),
  request: { params: conversationParam },
  responses: { 202: json(stoppedSchema, 'The run that will end as cancelled, or null'), ...problems },
})

const approve = createRoute({
  method: 'post',
  path: '/conversations/{id}/runs/{run_id}/approvals',
  summary: 'Answer the approval request of a tool call',
  // Approved calls change files and run commands.
  middleware: access('workspace:write'),
  request: {
    params: runParam,
    body: { required: true, content: { 'application/json': { schema: answerApprovalSchema } } },
  },
  responses: {
    204: { description: 'Answered' },
    ...problems,
    409: problem('The call is not waiting for approval'),
  },
})

const questionParam = runParam.extend({
  tool_call_id: z.string().meta({ param: { name: 'tool_call_id', in: 'path' } }),
})

const question = createRoute({
  method: 'get',
  path: '/conversations/{id}/runs/{run_id}/approvals/{tool_call_id}',
  summary: 'Read the full call that is waiting for approval, without truncation or redaction',
  middleware: access('workspace:write'),
  request: { params: questionParam },
  responses: {
    200: json(questionSchema, 'The question'),
    ...problems,
    409: problem('The call is not waiting for approval'),
  },
})

const rules = createRoute({
  method: 'get',
  path: '/rules',
  summary: 'List the calls that run without approval, newest first',
  middleware: access('workspace:write'),
  responses: { 200: json(ruleListSchema, 'The rules'), ...problems },
})

const removeRule = createRoute({
  method: 'delete',
  path: '/rules/{rule_id}',
  summary: 'Remove a rule; its call requires approval again',
  middleware: access('workspace:write'),
  request: { params: z.object({ rule_id: z.string().meta({ param: { name: 'rule_id', in: 'path' } }) }) },
  responses: { 204: { description: 'Removed' }, ...problems },
})

export function addRunRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const { clock } = deps

  /** Rejects a message in a conversation without files, and one that no worker could ever claim. */
  async function refuseForeign(tenant: string, id: ConversationId): Promise<void> {
    const { workspace_id } = await deps.ledger.conversation(tenant, id)
    const isElsewhere = workspace_id !== null && deps.isOnlyServer && !deps.sessions.isHere(workspace_id)
    if (workspace_id === null || isElsewhere) throw workspaceNotHere(workspace_id, deps.workspaceId)
  }

  app.openapi(send, async (c) => {
    const now = clock.now()
    const { tenant, scopes } = c.get('caller')
    const id = conversationId(c.req.valid('param').id)
    const message = c.req.valid('json')
    const command = {
      tenant,
      conversationId: id,
      runId: newId('run', now),
      messageId: newId('msg', now),
      content: message.content,
      ...(await extrasOf(deps.attachments, message)),
      mayChangeFiles: scopes.includes('workspace:write'),
    }
    await refuseForeign(tenant, id)
    const isStreamed = wantsStream(c)
    // Read the head before enqueueing, because the run may start immediately.
    const head = isStreamed ? await deps.ledger.line(tenant, id) : null
    const idempotency = await idempotencyOf(c)
    const accepted = await deps.queue.enqueue({ ...command, ...(idempotency ? { idempotency } : {}) })
    const { messageId: message_id, runId: run_id, position: queue_position, repeated } = accepted
    const body = { message_id, run_id, queue_position }
    if (head) {
      const last = head.at(-1)
      // A replayed request's run may have ended already, so search for its frames from the beginning.
      const cursor = repeated || !last ? null : { segmentId: last.segmentId, seq: last.to }
      await streamRun(c.env.outgoing, deps, { tenant, conversationId: id, cursor, accepted: body })
      return RESPONSE_ALREADY_SENT as never
    }
    if (repeated) c.header('Idempotency-Replayed', 'true')
    return c.json(body, 202)
  })

  app.openapi(attachment, async (c) => {
    const { sha256, ...param } = c.req.valid('param')
    const { tenant } = c.get('caller')
    const id = conversationId(param.id)
    // Include attachments of waiting messages.
    const { waiting } = await deps.queue.read(tenant, id)
    const queued = waiting.flatMap(({ extras }) => extras.attachments ?? [])
    const known = [...(await deps.attachments.onLine(tenant, id)), ...queued]
    const found = known.find((one) => one.sha256 === sha256)
    if (!found) throw new WaymarkError('attachment_not_found', 'No message here has that attachment.')
    const content = await deps.attachments.read(sha256)
    const media_type = imageTypeOf(content)
    return c.json({ ...found, content, ...(media_type === null ? {} : { media_type }) }, 200)
  })

  app.openapi(output, async (c) => {
    const { id, tool_call_id } = c.req.valid('param')
    const whole = await deps.results.find(c.get('caller').tenant, conversationId(id), tool_call_id)
    if (whole === null) throw new WaymarkError('output_not_found', 'No output is stored for that tool call.')
    const mayRead = c.get('caller').scopes.includes('records:read')
    return c.json({ tool_call_id, output: mayRead ? whole : redactText(whole) }, 200)
  })

  app.openapi(queue, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    return c.json(queueView(await deps.queue.read(c.get('caller').tenant, id)), 200)
  })

  app.openapi(remove, async (c) => {
    const { id, run_id } = c.req.valid('param')
    await deps.queue.remove(c.get('caller').tenant, conversationId(id), runId(run_id))
    return c.body(null, 204)
  })

  app.openapi(edit, async (c) => {
    const { run_id } = c.req.valid('param')
    const id = conversationId(c.req.valid('param').id)
    const { tenant } = c.get('caller')
    await deps.queue.edit({ tenant, conversationId: id, runId: runId(run_id), ...c.req.valid('json') })
    return c.json(queueView(await deps.queue.read(tenant, id)), 200)
  })

  app.openapi(cancel, async (c) => {
    const { id, run_id } = c.req.valid('param')
    await deps.queue.cancel({ ...callerOf(c), conversationId: conversationId(id), runId: runId(run_id) })
    return c.json({ run_id }, 202)
  })

  app.openapi(stop, async (c) => {
    const id = conversationId(c.req.valid('param').id)
    const run_id = await deps.queue.stop({ ...callerOf(c), conversationId: id })
    return c.json({ run_id }, 202)
  })

  app.openapi(approve, async (c) => {
    const { id, run_id } = c.req.valid('param')
    const { tool_call_id, approved, reason, question_sha256, grant, option_id, always } = c.req.valid('json')
    await deps.queue.answer({
      ...callerOf(c),
      conversationId: conversationId(id),
      runId: runId(run_id),
      toolCallId: tool_call_id,
      approved,
      reason: reason ?? null,
      questionSha256: question_sha256 ?? null,
      grant: { network: grant?.network ?? false, outside: grant?.outside ?? false },
      optionId: option_id ?? null,
      always: always === true ? { match: 'exact', scope: 'workspace' } : always || null,
    })
    return c.body(null, 204)
  })

  app.openapi(question, async (c) => {
    const { id, run_id, tool_call_id } = c.req.valid('param')
    const { tenant } = c.get('caller')
    const query = {
      tenant,
      conversationId: conversationId(id),
      runId: runId(run_id),
      toolCallId: tool_call_id,
    }
    const {
      toolName,
      arguments: written,
      subject,
      confinement,
      options = [],
      sha256,
    } = await deps.queue.question(query)
    return c.json(
      {
        run_id,
        tool_call_id,
        tool_name: toolName,
        arguments: written,
        confinement: confinement && {
          sandbox: confinement.sandbox,
          network: confinement.network,
          wants_network: confinement.wantsNetwork,
        },
        question_sha256: sha256,
        options: [...options],
        // Only programs have a first word.
        prefix: confinement === null ? null : commandPrefix(subject),
      },
      200,
    )
  })

  app.openapi(rules, async (c) => {
    const items = (await deps.rules.list(c.get('caller').tenant)).map((rule) => ({
      rule_id: rule.id,
      workspace_id: rule.workspaceId,
      conversation_id: rule.conversationId,
      tool_name: rule.toolName,
      match: rule.match,
      subject: rule.subject,
      grant: rule.grant,
      by: rule.by,
      created_at: rule.createdAt,
    }))
    return c.json({ items }, 200)
  })

  app.openapi(removeRule, async (c) => {
    const { rule_id } = c.req.valid('param')
    const { tenant, by } = callerOf(c)
    const isRemoved = isId('rule', rule_id) && (await deps.rules.remove(tenant, rule_id, by))
    if (!isRemoved) throw new WaymarkError('rule_not_found', 'There is no such rule.')
    return c.body(null, 204)
  })
}

/** The caller as frames name it: the token's name, never its secret. */
function callerOf(c: Context<AppEnv>): { tenant: string; by: string } {
  const { tenant, name } = c.get('caller')
  return { tenant, by: name }
}

function runId(text: string): RunId {
  if (!isId('run', text)) throw new WaymarkError('run_not_found', 'There is no such run.')
  return text
}

async function extrasOf(
  kept: AttachmentStore,
  { active_files = [], attachments = [], rag_scope }: SendMessage,
): Promise<{ extras?: MessageExtras }> {
  if (active_files.length + attachments.length === 0 && !rag_scope) return {}
  const activeFiles = active_files.map((file) =>
    typeof file === 'string' ? { path: file, content: null } : file,
  )
  const attached: Attachment[] = []
  for (const { name, content } of attachments) {
    const text = content.toWellFormed()
    const media_type = imageTypeOf(text)
    const bytes = media_type === null ? Buffer.byteLength(text) : Math.floor(text.length * 0.75)
    const sha256 = await kept.keep(text)
    attached.push({ name, sha256, bytes, ...(media_type === null ? {} : { media_type }) })
  }
  return { extras: { activeFiles, attachments: attached, ...(rag_scope ? { ragScope: rag_scope } : {}) } }
}
