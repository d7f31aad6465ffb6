import * as z from 'zod'
import { FRAME_SCHEMA, type FrameKind, frameKinds, isKnownKind } from './frame-kinds.ts'

const count = z.int().nonnegative()
const checkpointId = z.string().regex(/^[0-9a-f]{40,64}$/)
const rescued = z.array(z.looseObject({ path: z.string(), file: z.string() }))
const skipped = z.array(z.looseObject({ path: z.string(), reason: z.string() }))

export const noticeSchema = z.looseObject({
  type: z.enum(['redacted', 'truncated']),
  path: z.string(),
  message: z.string(),
})

export type Notice = z.infer<typeof noticeSchema>

/** Fields that the ledger writes itself, in this order, before a frame's own. */
const assignedShape = {
  schema: z.literal(FRAME_SCHEMA),
  event_id: z.int().positive(),
  conversation_id: z.string(),
  stream_id: z.string().nullable(),
  sequence_number: z.int().positive().nullable(),
  server_timestamp: z.iso.datetime({ precision: 3 }),
}

/** Optional fields of every frame. */
const optionalShape = {
  response_id: z.string().optional(),
  agent: z.string().optional(),
  output_index: count.optional(),
  item_id: z.string().optional(),
  content_index: count.optional(),
  tool_call_id: z.string().optional(),
  provider_sequence_number: z.number().optional(),
  notices: z.array(noticeSchema).optional(),
}

const item = { output_index: count, item_id: z.string() }
const call = { ...item, tool_call_id: z.string() }

/** The field that a chunked value belongs to. */
const chunkTarget = z.looseObject({
  entity_kind: z.enum(['tool_call', 'message']),
  entity_id: z.string(),
  field: z.string(),
  part_index: count.optional(),
})

export const toolSchema = z.looseObject({
  tool_type: z.string(),
  tool_call_id: z.string(),
  status: z.string(),
  name: z.string().optional(),
  tool_name: z.string().optional(),
  server_label: z.string().optional(),
  arguments_text: z.string().optional(),
  output: z.unknown().optional(),
  /** How a tool of ours affects files; sent when it starts. */
  file_effect: z.enum(['none', 'recorded', 'unrecorded']).optional(),
})

export const usageSchema = z.looseObject({
  input_tokens: count,
  output_tokens: count,
  total_tokens: count,
  cached_input_tokens: count.optional(),
  reasoning_output_tokens: count.optional(),
  requests: count.optional(),
  /** As the provider reports it, in its own unit. */
  cost: z.number().optional(),
})

export type Usage = z.infer<typeof usageSchema>

export const lifecycleStatuses = [
  'queued',
  'in_progress',
  'completed',
  'failed',
  'incomplete',
  'cancelled',
] as const
export const finalStatuses = ['completed', 'failed', 'incomplete', 'refused', 'cancelled'] as const
/** `none` undoes earlier changes: the model sees everything again. */
export const memoryStrategies = ['compact', 'summarize', 'trim', 'none'] as const

/** The fields of every frame kind. */
export const kindShapes = {
  'conversation.created': { title: z.string().optional(), workspace_id: z.string().optional() },
  'conversation.forked': { parent_conversation_id: z.string(), from_event_number: z.int().positive() },
  'conversation.truncated': { cut_after: count, message_id: z.string(), by: z.string() },
  'conversation.retitled': { title: z.string() },

  'message.user': {
    message_id: z.string(),
    content: z.string(),
    checkpoint_id: checkpointId.optional(),
    work_session: z.string().optional(),
    active_files: z.array(z.string()).optional(),
    attachments: z
      .array(
        z.looseObject({
          name: z.string(),
          sha256: z.string(),
          bytes: count,
          /** For images, whose text is a data URL. */
          media_type: z.string().optional(),
        }),
      )
      .optional(),
  },
  lifecycle: {
    status: z.enum(lifecycleStatuses),
    reason: z.string().optional(),
    /** The request to the model failed and is sent again after `wait_ms`. */
    retry: z.looseObject({ wait_ms: count, attempt: count, attempts: count }).optional(),
  },
  final: {
    final: z.looseObject({
      status: z.enum(finalStatuses),
      response_text: z.string().optional(),
      structured_output: z.unknown().optional(),
      reasoning_summary_text: z.string().optional(),
      refusal_text: z.string().optional(),
      attachments: z.array(z.unknown()).optional(),
      usage: usageSchema.optional(),
    }),
  },
  error: {
    error: z.looseObject({
      code: z.string(),
      message: z.string(),
      source: z.enum(['provider', 'server']),
      is_retryable: z.boolean(),
    }),
  },

  'agent.updated': {
    from_agent: z.string().optional(),
    to_agent: z.string(),
    mode: z.string().optional(),
    model: z.string().optional(),
    /** The slash commands that the agent offers. */
    commands: z.array(z.object({ name: z.string(), description: z.string() })).optional(),
  },
  'output_item.added': {
    ...item,
    item_type: z.string(),
    role: z.string().optional(),
    status: z.string().optional(),
  },
  'output_item.done': {
    ...item,
    item_type: z.string(),
    role: z.string().optional(),
    status: z.string().optional(),
  },
  'message.delta': { ...item, content_index: count, delta: z.string() },
  'message.citation': { ...item, content_index: count, citation: z.looseObject({ type: z.string() }) },
  'reasoning_summary.part.added': { ...item, summary_index: count, text: z.string() },
  'reasoning_summary.delta': { ...item, summary_index: count, delta: z.string() },
  'reasoning_summary.part.done': { ...item, summary_index: count, text: z.string() },
  'refusal.delta': { ...item, content_index: count, delta: z.string() },
  'refusal.done': { ...item, content_index: count, refusal_text: z.string() },

  'tool.status': { ...call, tool: toolSchema },
  'tool.arguments.delta': { ...call, tool_type: z.string(), tool_name: z.string(), delta: z.string() },
  'tool.arguments.done': {
    ...call,
    tool_type: z.string(),
    tool_name: z.string(),
    arguments_text: z.string(),
    arguments_json: z.unknown().optional(),
  },
  'tool.code.delta': { ...call, delta: z.string() },
  'tool.code.done': { ...call, code: z.string() },
  'tool.output': {
    ...call,
    tool_type: z.string(),
    output: z.unknown(),
    partial: z.boolean().optional(),
    output_ref: z.string().optional(),
  },
  'tool.approval': {
    ...call,
    tool_name: z.string(),
    status: z.enum(['requested', 'approved', 'denied']),
    reason: z.string().optional(),
    by: z.string().optional(),
    /** Digest of the question that is asked or answered. */
    question_sha256: z.string().optional(),
    /** How the program would run; for tools that start one. */
    confinement: z
      .object({ sandbox: z.string().nullable(), network: z.boolean(), wants_network: z.boolean() })
      .optional(),
    /** Rights granted in addition to the call. */
    grant: z.object({ network: z.boolean(), outside: z.boolean() }).optional(),
    /** The rule that allowed it. */
    rule_id: z.string().optional(),
    /** The answers that a hosted agent offers. */
    options: z.array(z.object({ id: z.string(), name: z.string(), kind: z.string() })).optional(),
    /** The one that was chosen. */
    option_id: z.string().optional(),
  },
  'chunk.delta': {
    ...item,
    target: chunkTarget,
    encoding: z.enum(['base64', 'utf8']),
    chunk_index: count,
    data: z.string(),
  },
  'chunk.done': {
    ...item,
    target: chunkTarget,
    encoding: z.enum(['base64', 'utf8']).optional(),
    chunk_index: count.optional(),
    data: z.string().optional(),
  },

  'workspace.checkpoint': {
    checkpoint_id: checkpointId,
    work_session: z.string(),
    label: z.string(),
    files: count,
    changed: count,
    excluded: count,
    number: count.optional(),
  },
  'file.edit': {
    path: z.string(),
    diff: z.string().optional(),
    additions: count,
    deletions: count,
    change: z.enum(['added', 'modified', 'deleted']),
    /** The checkpoint with the previous file, if it had changed since the last checkpoint. */
    previous_checkpoint: checkpointId.optional(),
    rescued: rescued.optional(),
  },
  'workspace.restored': {
    restored_to: checkpointId,
    new_checkpoint: checkpointId,
    safety_checkpoint: checkpointId,
    restored: count,
    deleted: count,
    /** The conversation whose files were merged, if the restore was an adoption. */
    adopted_from: z.string().optional(),
    skipped,
    rescued: rescued.optional(),
  },
  'session.approved': {
    approved_commit: checkpointId,
    closed_session: z.string(),
    new_session: z.string(),
    commits_approved: count,
    message: z.string().optional(),
    closed_at: z.string().optional(),
  },
  'session.reset': {
    reset_to: checkpointId,
    closed_session: z.string(),
    new_session: z.string(),
    pre_reset_checkpoint: checkpointId,
    skipped,
    rescued: rescued.optional(),
    closed_at: z.string().optional(),
  },

  'memory.checkpoint': {
    checkpoint: z.looseObject({
      strategy: z.enum(memoryStrategies),
      trigger_reason: z.string(),
      tokens_before: count,
      tokens_after: count,
      items_before: count,
      items_after: count,
      turns_before: count,
      turns_after: count,
      kept_from_seq: count,
      dropped: z.array(z.tuple([count, count])),
      summary_ref: z.string().optional(),
      summary_sha256: z.string().optional(),
    }),
  },
  'agent.checkpoint': { checkpoint_id: z.string(), message_id: z.string() },

  'import.session': {
    agent: z.string(),
    session_id: z.string(),
    folder: z.string().nullable(),
    /** How many entries have been imported, and a digest of them. */
    entries: count,
    digest: z.string(),
  },
  'import.entry': { agent: z.string(), entry_kind: z.string(), entry: z.unknown() },
} satisfies Record<FrameKind, z.ZodRawShape>

type Shapes = typeof kindShapes

type Flat<T> = { [K in keyof T]: T[K] }
type Assigned = z.infer<z.ZodObject<typeof assignedShape>>
type Optional = z.infer<z.ZodObject<typeof optionalShape>>
type Fields<K extends FrameKind> = z.infer<z.ZodObject<Shapes[K]>>

/** A frame as stored in the ledger. */
export type Frame<K extends FrameKind = FrameKind> = {
  [P in K]: Flat<Assigned & { kind: P } & Omit<Optional, keyof Fields<P>> & Fields<P>>
}[K]

/** A frame before the ledger has sealed it. */
export type FrameDraft<K extends FrameKind = FrameKind> = {
  [P in K]: Flat<{ kind: P } & Omit<Optional, keyof Fields<P>> & Fields<P>>
}[K]

/** A kind that this version does not know; stored and passed on unchanged (L10). */
export type UnknownFrame = Assigned & { kind: string } & Record<string, unknown>
export type AnyFrame = Frame | UnknownFrame

export const envelopeSchema = z.looseObject({ ...assignedShape, kind: z.string().min(1), ...optionalShape })

export const frameSchemas = Object.fromEntries(
  frameKinds.map((kind) => [
    kind,
    z.looseObject({
      ...assignedShape,
      kind: z.literal(kind),
      ...optionalShape,
      ...(kindShapes[kind] as z.ZodRawShape),
    }),
  ]),
) as unknown as { [K in FrameKind]: z.ZodType<Frame<K>> }

/** Validates all fields of a known kind, and only the envelope of an unknown one (L10). Unknown fields are kept. */
export function parseFrame(value: unknown): AnyFrame {
  const envelope = envelopeSchema.parse(value)
  return isKnownKind(envelope.kind) ? frameSchemas[envelope.kind].parse(value) : envelope
}
