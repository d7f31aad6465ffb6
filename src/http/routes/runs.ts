import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { AttachmentStore } from '../../core/attachments.ts'
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
import { streamRun } from '../run-stream.ts'

const runParam = conversationParam.extend({
  run_id: z
    .string()
    .meta({ param: { name: 'run_id', in: 'path' }, example: 'run_01m7ge5wdas4rvsp14pjg3nkaf' }),
})

const send = createRoute({
  method: 'post',
  path: '/conversations/{id}/messages',
  summary: 'Send a message: it waits for its turn, and an agent works on it',
  description:
    'Answers at once with the place in the queue. With `Accept: text/event-stream` the answer is a stream instead: ' +
    "an event named `accepted` with the same fields, then the run's frames up to its last.",
  middleware: access('conversations:write'),
  request: {
    params: conversationParam,
    headers: z.object({ 'idempotency-key': z.string().optional() }),
    body: { required: true, content: { 'application/json': { schema: sendMessageSchema } } },
  },
  responses: {
    202: json(acceptedMessageSchema, 'Accepted'),
    ...problems,
    429: problem('Ten messages are waiting already; Retry-After says when to try again'),
  },
})

const attachmentParam = conversationParam.extend({
  sha256: z.string().meta({ param: { name: 'sha256', in: 'path' } }),
})

const attachment = createRoute({
  method: 'get',
  path: '/conversations/{id}/attachments/{sha256}',
  summary: 'A text that went with a message of this line, or waits with one',
  middleware: access('conversations:read'),
  request: { params: attachmentParam },
  responses: { 200: json(attachmentViewSchema, 'The text'), ...problems },
})

const outputParam = conversationParam.extend({
  tool_call_id: z.string().meta({ param: { name: 'tool_call_id', in: 'path' } }),
})

const output = createRoute({
  method: 'get',
  path: '/conversations/{id}/outputs/{tool_call_id}',
  summary: 'The whole of what a tool returned, of which its frame may hold the beginning only',
  middleware: access('conversations:read'),
  request: { params: outputParam },
  responses: { 200: json(outputViewSchema, 'The output'), ...problems },
})

const queue = createRoute({
  method: 'get',
  path: '/conversations/{id}/queue',
  summary: 'The run that is being worked on, and the messages that wait',
  middleware: access('conversations:read'),
  request: { params: conversationParam },
  responses: { 200: json(queueSchema, 'The queue'), ...problems },
})

const remove = createRoute({
  method: 'delete',
  path: '/conversations/{id}/queue/{run_id}',
  summary: 'Take a waiting message out of the queue',
  middleware: access('conversations:write'),
  request: { params: runParam },
  responses: { 204: { description: 'Taken out' }, ...problems },
})

const edit = createRoute({
  method: 'patch',
  path: '/conversations/{id}/queue/{run_id}',
  summary: 'Change the words of a waiting message, or its place in the queue',
  middleware: access('conversations:write'),
  request: {
    params: runParam,
    body: { required: true, content: { 'application/json': { schema: editQueuedSchema } } },
  },
  responses: { 200: json(queueSchema, 'The queue as it is now'), ...problems },
})

const cancel = createRoute({
  method: 'post',
  path: '/conversations/{id}/runs/{run_id}/cancel',
  summary: 'Cancel a run, active or waiting',
  middleware: access('conversations:write'),
  request: { params: runParam },
  responses: { 202: json(stoppedSchema, 'It will end as cancelled'), ...problems },
})

const stop = createRoute({
  method: 'post',
  path: '/conversations/{id}/stop',
  summary: 'Stop the current run; the next message in the queue starts by itself',
  middleware: access('conversations:write'),
  request: { params: conversationParam },
  responses: { 202: json(stoppedSchema, 'The run that will end as cancelled, if there is one'), ...problems },
})

const approve = createRoute({
  method: 'post',
  path: '/conversations/{id}/runs/{run_id}/approvals',
  summary: 'Answer a tool that asks whether it may run',
  // What is approved here changes files and runs commands.
  middleware: access('workspace:write'),
  request: {
    params: runParam,
    body: { required: true, content: { 'application/json': { schema: answerApprovalSchema } } },
  },
  responses: {
    204: { description: 'Answered' },
    ...problems,
    409: problem('It does not wait for an answer'),
  },
})

const questionParam = runParam.extend({
  tool_call_id: z.string().meta({ param: { name: 'tool_call_id', in: 'path' } }),
})

const question = createRoute({
  method: 'get',
  path: '/conversations/{id}/runs/{run_id}/approvals/{tool_call_id}',
  summary: 'The whole of what a tool waits to be allowed to do, with nothing cut or redacted',
  middleware: access('workspace:write'),
  request: { params: questionParam },
  responses: {
    200: json(questionSchema, 'The question'),
    ...problems,
    409: problem('It does not wait for an answer'),
  },
})

const rules = createRoute({
  method: 'get',
  path: '/rules',
  summary: 'Calls that are allowed without asking, the last first',
  middleware: access('workspace:write'),
  responses: { 200: json(ruleListSchema, 'The rules'), ...problems },
})

const removeRule = createRoute({
  method: 'delete',
  path: '/rules/{rule_id}',
  summary: 'Ask again before the call of this rule runs',
  middleware: access('workspace:write'),
  request: { params: z.object({ rule_id: z.string().meta({ param: { name: 'rule_id', in: 'path' } }) }) },
  responses: { 204: { description: 'Removed' }, ...problems },
})

export function addRunRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const { clock } = deps

  /** Reject a message that no worker could ever claim. */
  async function refuseForeign(tenant: string, id: ConversationId): Promise<void> {
    const { workspace_id } = await deps.ledger.conversation(tenant, id)
    if (workspace_id !== null && !deps.sessions.holds(workspace_id))
      throw workspaceNotHere(workspace_id, deps.workspaceId)
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
    if (deps.isOnlyServer) await refuseForeign(tenant, id)
    const isStreamed = wantsStream(c)
    // Where the stream begins is read first: the run may begin at once.
    const head = isStreamed ? await deps.ledger.line(tenant, id) : null
    const idempotency = await idempotencyOf(c)
    const accepted = await deps.queue.enqueue({ ...command, ...(idempotency ? { idempotency } : {}) })
    const { messageId: message_id, runId: run_id, position: queue_position, repeated } = accepted
    const body = { message_id, run_id, queue_position }
    if (head) {
      const last = head.at(-1)
      // A run that was accepted before may be over by now: its frames are looked for from the beginning.
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
    // Those of messages that wait, too.
    const { waiting } = await deps.queue.read(tenant, id)
    const queued = waiting.flatMap(({ extras }) => extras.attachments ?? [])
    const known = [...(await deps.attachments.onLine(tenant, id)), ...queued]
    const found = known.find((one) => one.sha256 === sha256)
    if (!found) throw new WaymarkError('attachment_not_found', 'No message here has such an attachment.')
    return c.json({ ...found, content: await deps.attachments.read(sha256) }, 200)
  })

  app.openapi(output, async (c) => {
    const { id, tool_call_id } = c.req.valid('param')
    const whole = await deps.results.find(c.get('caller').tenant, conversationId(id), tool_call_id)
    if (whole === null)
      throw new WaymarkError('output_not_found', 'No tool returned anything for such a call.')
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
    const { tool_call_id, approved, reason, question_sha256, grant, always } = c.req.valid('json')
    await deps.queue.answer({
      ...callerOf(c),
      conversationId: conversationId(id),
      runId: runId(run_id),
      toolCallId: tool_call_id,
      approved,
      reason: reason ?? null,
      questionSha256: question_sha256 ?? null,
      grant: { network: grant?.network ?? false, outside: grant?.outside ?? false },
      always: always ?? false,
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
    const { toolName, arguments: written, confinement, sha256 } = await deps.queue.question(query)
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
      },
      200,
    )
  })

  app.openapi(rules, async (c) => {
    const items = (await deps.rules.list(c.get('caller').tenant)).map((rule) => ({
      rule_id: rule.id,
      workspace_id: rule.workspaceId,
      tool_name: rule.toolName,
      subject: rule.subject,
      grant: rule.grant,
      by: rule.by,
      created_at: rule.createdAt,
    }))
    return c.json({ items }, 200)
  })

  app.openapi(removeRule, async (c) => {
    const { rule_id } = c.req.valid('param')
    const isRemoved = isId('rule', rule_id) && (await deps.rules.remove(c.get('caller').tenant, rule_id))
    if (!isRemoved) throw new WaymarkError('rule_not_found', 'There is no such rule.')
    return c.body(null, 204)
  })
}

/** Who did it, as frames name them: a token's name, never its secret. */
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
    attached.push({ name, sha256: await kept.keep(text), bytes: Buffer.byteLength(text) })
  }
  return { extras: { activeFiles, attachments: attached, ...(rag_scope ? { ragScope: rag_scope } : {}) } }
}

function wantsStream(c: Context): boolean {
  return c.req.header('accept')?.toLowerCase().includes('text/event-stream') ?? false
}
