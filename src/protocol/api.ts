import * as z from 'zod'

/** What crosses the HTTP API besides frames. */

export const DEFAULT_EVENTS_LIMIT = 500
export const MAX_EVENTS_LIMIT = 1000
export const MAX_LIST_LIMIT = 200
export const MAX_BODY_BYTES = 8 * 1024 * 1024

export const scopes = ['conversations:read', 'conversations:write', 'workspace:write', 'admin'] as const
export type Scope = (typeof scopes)[number]

const limit = (fallback: number, most: number) => z.coerce.number().int().min(1).max(most).default(fallback)

const text = (most: number) =>
  z
    .string()
    .max(most)
    .refine((value) => !value.includes('\u0000'), 'must not contain NUL')
const title = text(500)
const workspaceId = text(200).regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'must be letters, digits, dots, - and _')
const name = text(200)

const settingsShape = {
  agent_context: name.nullable().optional(),
  conversation_context: name.nullable().optional(),
  memory: z
    .strictObject({
      strategy: z.enum(['none', 'trim', 'summarize', 'compact']),
      max_tokens: z.int().min(500).optional(),
    })
    .nullable()
    .optional(),
}

export type StoredSettings = Omit<Settings, 'memory'> & { memory?: MemorySettings | null | undefined }

/** As it is kept: `wanted` is what somebody has asked for, until it is done. */
export interface MemorySettings {
  strategy?: 'none' | 'trim' | 'summarize' | 'compact'
  max_tokens?: number
  wanted?: 'trim' | 'summarize' | 'compact' | null
}

export const settingsSchema = z.object(settingsShape)
export type Settings = z.infer<typeof settingsSchema>

export const createConversationSchema = z
  .strictObject({ title: title.optional(), workspace_id: workspaceId.optional(), ...settingsShape })
  .meta({ id: 'CreateConversation' })
export type CreateConversation = z.infer<typeof createConversationSchema>

export const patchConversationSchema = z
  .strictObject({ title: title.min(1).optional(), ...settingsShape })
  .refine((patch) => Object.keys(patch).length > 0, 'must change something')
  .meta({ id: 'PatchConversation' })
export type PatchConversation = z.infer<typeof patchConversationSchema>

export const conversationSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable(),
    workspace_id: z.string().nullable(),
    parent: z.object({ conversation_id: z.string(), event_number: z.int() }).nullable(),
    head_event_number: z.int(),
    active_session: z.string().nullable(),
    last_approved_at: z.string().nullable(),
    agent_context: z.string().nullable(),
    conversation_context: z.string().nullable(),
    memory: z.looseObject({ strategy: z.string() }).nullable(),
    /** Whether the agent is at work, and how many messages wait. */
    is_running: z.boolean(),
    queued: z.int(),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Conversation' })
export type Conversation = z.infer<typeof conversationSchema>

export const listConversationsQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  cursor: z.string().optional(),
  q: text(200).optional(),
})

export const conversationListSchema = z
  .object({ items: z.array(conversationSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'ConversationList' })
export type ConversationList = z.infer<typeof conversationListSchema>

export const eventsQuery = z
  .object({
    limit: limit(DEFAULT_EVENTS_LIMIT, MAX_EVENTS_LIMIT),
    cursor: z.string().optional(),
    /** The page that ends just before this event; one beyond the last stands for the end. */
    before: z.coerce.number().int().min(2).optional(),
  })
  .refine((query) => query.cursor === undefined || query.before === undefined, {
    message: 'give cursor or before, not both',
  })

export const eventsPageSchema = z
  .object({
    conversation_id: z.string(),
    cut_after: z.int().nullable(),
    items: z.array(z.looseObject({ event_id: z.int(), kind: z.string() })),
    next_cursor: z.string().nullable(),
    last_cursor: z.string().nullable(),
    digest: z.string().nullable(),
  })
  .meta({ id: 'EventsPage' })
export type EventsPage = z.infer<typeof eventsPageSchema>

export const streamQuery = z.object({
  cursor: z.string().optional(),
  follow: z.enum(['true', 'false']).default('true'),
})

/** Sent as the SSE event `cut`: the reader's place is no longer on the line; drop what lies behind `cut_after`. */
export interface CutNotice {
  cut_after: number
}

export const messagesQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  cursor: z.string().optional(),
})

export const messageSchema = z
  .object({
    message_id: z.string(),
    role: z.enum(['user', 'assistant']),
    content: z.string(),
    event_number: z.int(),
    conversation_id: z.string(),
    checkpoint_id: z.string().nullable(),
    run_id: z.string().nullable(),
    created_at: z.string(),
  })
  .meta({ id: 'Message' })
export type Message = z.infer<typeof messageSchema>

export const messageListSchema = z
  .object({ items: z.array(messageSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'MessageList' })
export type MessageList = z.infer<typeof messageListSchema>

const FILES = ['keep', 'restore', 'copy'] as const

export const forkSchema = z
  .strictObject({
    /** The last event that the fork has in common with this conversation. */
    event_number: z.int().positive().optional(),
    /** Fork just before this message instead, ready for another wording. */
    message_id: text(200).min(1).optional(),
    title: title.min(1).optional(),
    /** What to do with the files: leave them, put them back to the place first, or give the fork a copy of its own. */
    files: z.enum(FILES).default('keep'),
  })
  .refine((fork) => fork.event_number === undefined || fork.message_id === undefined, {
    message: 'give event_number or message_id, not both',
  })
  .meta({ id: 'Fork' })
export type Fork = z.input<typeof forkSchema>

export const forkedSchema = conversationSchema
  .extend({
    /** What putting the files back did; null when that was not asked for, or there was nothing to be done. */
    restored: z.lazy(() => restoredSchema).nullable(),
  })
  .meta({ id: 'Forked' })
export type Forked = z.infer<typeof forkedSchema>

export const branchListSchema = z
  .object({
    items: z.array(
      z.object({ conversation_id: z.string(), from_event_number: z.int(), created_at: z.string() }),
    ),
  })
  .meta({ id: 'BranchList' })
export type BranchList = z.infer<typeof branchListSchema>

export const familySchema = z
  .object({
    root: z.string(),
    items: z.array(
      z.object({
        conversation_id: z.string(),
        title: z.string().nullable(),
        parent: z.object({ conversation_id: z.string(), event_number: z.int() }).nullable(),
        head_event_number: z.int(),
        workspace_id: z.string().nullable(),
        /** It is here only because others come from it. */
        is_deleted: z.boolean(),
        created_at: z.string(),
        updated_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'Family' })
export type Family = z.infer<typeof familySchema>

const clearedSchema = z.array(z.object({ message_id: z.string(), content: z.string() }))

export const deletedMessageSchema = z
  .object({
    conversation_id: z.string(),
    deleted_message_id: z.string(),
    /** The last event that is still on the line. */
    cut_after: z.int(),
    /** The files stay; this is the checkpoint to restore them to. */
    checkpoint_id: z.string().nullable(),
    undo_until: z.string(),
    /** Messages that waited behind it and were taken out of the queue. */
    cleared: clearedSchema,
  })
  .meta({ id: 'DeletedMessage' })
export type DeletedMessage = z.infer<typeof deletedMessageSchema>

export const undeleteSchema = z
  .strictObject({
    /** Without it, the conversation itself is brought back. */
    message_id: text(200).min(1).optional(),
  })
  .meta({ id: 'Undelete' })
export type Undelete = z.infer<typeof undeleteSchema>

export const undeletedSchema = z
  .object({
    conversation_id: z.string(),
    undeleted_message_id: z.string().nullable(),
    head_event_number: z.int(),
    /** The first message that left the line by this: undeleting it leads back. */
    left_message_id: z.string().nullable(),
    undo_until: z.string().nullable(),
    cleared: clearedSchema,
  })
  .meta({ id: 'Undeleted' })
export type Undeleted = z.infer<typeof undeletedSchema>

export const collectSchema = z
  .strictObject({
    dry_run: z.boolean().optional(),
    /** Do not wait for the retention time: what was deleted can't be brought back then. */
    now: z.boolean().optional(),
  })
  .meta({ id: 'Collect' })
export type Collect = z.infer<typeof collectSchema>

export const collectionReportSchema = z
  .object({
    dry_run: z.boolean(),
    events: z.int(),
    bytes: z.int(),
    messages: z.int(),
    checkpoints: z.int(),
    agent_states: z.int(),
    blobs: z.int(),
    conversations: z.int(),
    file_bytes: z.int(),
  })
  .meta({ id: 'CollectionReport' })
export type CollectionReport = z.infer<typeof collectionReportSchema>

export const auditListSchema = z
  .object({
    items: z.array(
      z.object({
        at: z.string(),
        by: z.string(),
        action: z.string(),
        conversation_id: z.string().nullable(),
        details: z.record(z.string(), z.unknown()),
      }),
    ),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'AuditList' })
export type AuditList = z.infer<typeof auditListSchema>

export const MAX_MESSAGE_CHARACTERS = 1_000_000

const MAX_ACTIVE_FILES = 100
const MAX_ATTACHMENTS = 20
const MAX_ATTACHED_CHARACTERS = 4_000_000
const MAX_ACTIVE_CHARACTERS = 1_000_000
const activePath = text(4096)
  .min(1)
  .refine(
    (path) => !path.startsWith('/') && !path.split('/').includes('..'),
    "must be a path from the project's folder",
  )

export const sendMessageSchema = z
  .strictObject({
    content: text(MAX_MESSAGE_CHARACTERS).refine((value) => value.trim() !== '', 'must not be empty'),
    /** Files whose whole text the model should see: paths, or with their text as it is in an editor and not yet saved. */
    active_files: z
      .array(
        z.union([
          activePath,
          z.strictObject({ path: activePath, content: z.string().max(MAX_ACTIVE_CHARACTERS) }),
        ]),
      )
      .max(MAX_ACTIVE_FILES)
      .optional(),
    /** Texts that go with the message: specifications, schemas, logs. */
    attachments: z
      .array(
        z.strictObject({
          name: text(200).min(1),
          content: z.string().min(1).max(MAX_ATTACHED_CHARACTERS),
        }),
      )
      .max(MAX_ATTACHMENTS)
      .optional(),
    /** Which files snippets may come from: globs of paths, languages, the workspace's name. */
    rag_scope: z
      .strictObject({
        paths: z.array(text(500).min(1)).max(50).optional(),
        languages: z.array(text(50).min(1)).max(50).optional(),
        repo: text(200).min(1).optional(),
      })
      .optional(),
  })
  .meta({ id: 'SendMessage' })
export type SendMessage = z.infer<typeof sendMessageSchema>

export const acceptedMessageSchema = z
  .object({ message_id: z.string(), run_id: z.string(), queue_position: z.int() })
  .meta({ id: 'AcceptedMessage' })
export type AcceptedMessage = z.infer<typeof acceptedMessageSchema>

/** Also sent as the SSE event `queue` whenever it changes. */
export const queueSchema = z
  .object({
    active: z.object({ run_id: z.string(), message_id: z.string(), started_at: z.string() }).nullable(),
    items: z.array(
      z.object({
        run_id: z.string(),
        message_id: z.string(),
        content: z.string(),
        position: z.int(),
      }),
    ),
    max_depth: z.int(),
  })
  .meta({ id: 'Queue' })
export type QueueView = z.infer<typeof queueSchema>

export const stoppedSchema = z.object({ run_id: z.string().nullable() }).meta({ id: 'Stopped' })
export type Stopped = z.infer<typeof stoppedSchema>

export const answerApprovalSchema = z
  .strictObject({
    tool_call_id: text(200).min(1),
    approved: z.boolean(),
    reason: text(2000).optional(),
  })
  .meta({ id: 'AnswerApproval' })
export type AnswerApproval = z.infer<typeof answerApprovalSchema>

export const aboutSchema = z
  .object({
    version: z.string(),
    /** The workspace that new conversations are about. */
    workspace_id: z.string(),
    /** The folder's name. */
    project: z.string(),
    model: z.object({ name: z.string(), is_demo: z.boolean() }),
    scopes: z.array(z.enum(scopes)),
  })
  .meta({ id: 'About' })
export type About = z.infer<typeof aboutSchema>

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem' })
export type Problem = z.infer<typeof problemSchema>

const checkpointId = z.string().regex(/^[0-9a-f]{7,40}$/, 'must be 7 to 40 hexadecimal digits')
const filePath = text(4096).min(1)
const skippedSchema = z.array(z.object({ path: z.string(), reason: z.string() }))

const changedFileSchema = z
  .object({
    path: z.string(),
    status: z.enum(['added', 'modified', 'deleted']),
    additions: z.int(),
    deletions: z.int(),
    is_binary: z.boolean(),
    is_too_large: z.boolean(),
  })
  .meta({ id: 'ChangedFile' })

export const sessionViewSchema = z
  .object({
    active_session: z.string(),
    session_ref: z.string(),
    has_unapproved: z.boolean(),
    last_approved_at: z.string().nullable(),
    changed_files: z.array(changedFileSchema),
    sessions: z.array(
      z.object({
        name: z.string(),
        ref: z.string(),
        status: z.enum(['active', 'merged', 'abandoned']),
        created_at: z.string().nullable(),
        closed_at: z.string().nullable(),
        approved_commit: z.string().nullable(),
        checkpoint_count: z.int(),
      }),
    ),
  })
  .meta({ id: 'SessionView' })
export type SessionView = z.infer<typeof sessionViewSchema>

export const approveSchema = z.strictObject({ message: text(2000).optional() }).meta({ id: 'Approve' })
export type Approve = z.infer<typeof approveSchema>
export const approvedSchema = z
  .object({ approved_commit: z.string(), new_session: z.string(), commits_approved: z.int() })
  .meta({ id: 'Approved' })
export type Approved = z.infer<typeof approvedSchema>

export const resetSchema = z.strictObject({ dry_run: z.boolean().optional() }).meta({ id: 'Reset' })
export type Reset = z.infer<typeof resetSchema>
export const resetDoneSchema = z
  .object({
    reset_to: z.string(),
    /** Null for a dry run. */
    new_session: z.string().nullable(),
    pre_reset_checkpoint: z.string().nullable(),
    restored: z.array(z.string()),
    deleted: z.array(z.string()),
    skipped: skippedSchema,
  })
  .meta({ id: 'ResetDone' })
export type ResetDone = z.infer<typeof resetDoneSchema>

export const restoreSchema = z
  .strictObject({
    checkpoint_id: checkpointId,
    paths: z.array(filePath).min(1).max(10_000).optional(),
    dry_run: z.boolean().optional(),
  })
  .meta({ id: 'Restore' })
export type Restore = z.infer<typeof restoreSchema>
export const restoredSchema = z
  .object({
    restored_to: z.string(),
    new_checkpoint: z.string().nullable(),
    safety_checkpoint: z.string().nullable(),
    restored: z.array(z.string()),
    deleted: z.array(z.string()),
    skipped: skippedSchema,
  })
  .meta({ id: 'Restored' })
export type Restored = z.infer<typeof restoredSchema>

export const pagedQuery = z.object({ limit: limit(50, MAX_LIST_LIMIT), cursor: z.string().optional() })

const checkpointSchema = z.object({
  checkpoint_id: z.string(),
  work_session: z.string(),
  label: z.string(),
  files: z.int(),
  changed: z.int(),
  excluded: z.int(),
  conversation_id: z.string(),
  message_id: z.string().nullable(),
  created_at: z.string(),
})
export const checkpointListSchema = z
  .object({ items: z.array(checkpointSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'CheckpointList' })
export type CheckpointList = z.infer<typeof checkpointListSchema>

export const checkpointDetailsSchema = z
  .object({
    checkpoint_id: z.string(),
    left_out: z.array(z.object({ path: z.string(), reason: z.string() })),
  })
  .meta({ id: 'CheckpointDetails' })
export type CheckpointDetails = z.infer<typeof checkpointDetailsSchema>

export const editsQuery = pagedQuery.extend({ path: filePath.optional() })
export const fileEditListSchema = z
  .object({
    items: z.array(
      z.object({
        path: z.string(),
        change: z.string(),
        additions: z.int(),
        deletions: z.int(),
        diff: z.string().nullable(),
        tool_call_id: z.string().nullable(),
        message_id: z.string().nullable(),
        checkpoint_id: z.string().nullable(),
        event_number: z.int(),
        created_at: z.string(),
      }),
    ),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'FileEditList' })
export type FileEditList = z.infer<typeof fileEditListSchema>

export const diffQuery = z.object({
  from: checkpointId.optional(),
  to: checkpointId.optional(),
  path: filePath.optional(),
})
export const diffViewSchema = z
  .object({
    from: z.string(),
    /** Null for what is there now. */
    to: z.string().nullable(),
    files: z.array(changedFileSchema.extend({ diff: z.string().nullable() })),
  })
  .meta({ id: 'DiffView' })
export type DiffView = z.infer<typeof diffViewSchema>

export const MAX_FILES_LIMIT = 2000
const eventNumber = z.coerce.number().int().positive().optional()

export const filesQuery = z.object({
  /** As they were at this event; without it, as they are now. */
  at: eventNumber,
  /** A part of the path, or letters of it. */
  q: text(500).default(''),
  limit: limit(200, MAX_FILES_LIMIT),
})
export const fileListSchema = z
  .object({
    /** The checkpoint they are taken from; null for what is there now. */
    checkpoint_id: z.string().nullable(),
    total: z.int(),
    items: z.array(z.string()),
    /** What differs between then and now. */
    changed: z.array(changedFileSchema),
    /** Files that a tool had changed by then, and that are shown as they were before it. */
    unsure: skippedSchema,
  })
  .meta({ id: 'FileList' })
export type FileList = z.infer<typeof fileListSchema>

export const fileQuery = z.object({ at: eventNumber, path: filePath })
export const fileViewSchema = z
  .object({
    path: z.string(),
    checkpoint_id: z.string().nullable(),
    /** Null when it was not there, is no text, or more than 1 MiB. */
    text: z.string().nullable(),
    /** Null when it was not there. */
    bytes: z.int().nullable(),
    is_binary: z.boolean(),
    /** From then to now; null when it is the same. */
    change: changedFileSchema.extend({ diff: z.string().nullable() }).nullable(),
  })
  .meta({ id: 'FileView' })
export type FileView = z.infer<typeof fileViewSchema>

export const compareQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  /** With the differences of files line by line. */
  diff: z.enum(['true', 'false']).default('false'),
})

const comparedSchema = z.object({
  conversation_id: z.string(),
  head_event_number: z.int(),
  checkpoint_id: z.string().nullable(),
  /** What was said since they parted. */
  messages: z.array(messageSchema),
  has_more: z.boolean(),
})

export const comparisonSchema = z
  .object({
    /** The last event that both have; 0 when they have nothing in common. */
    parted_after: z.int(),
    from: comparedSchema,
    to: comparedSchema,
    /** Between their last checkpoints; null when one has none, or none is here. */
    files: z.array(changedFileSchema.extend({ diff: z.string().nullable() })).nullable(),
  })
  .meta({ id: 'Comparison' })
export type Comparison = z.infer<typeof comparisonSchema>

const responseShape = {
  response_id: z.string(),
  run_id: z.string(),
  message_id: z.string(),
  conversation_id: z.string(),
  /** The last event before it was asked for. */
  event_number: z.int(),
  /** What the provider calls it. */
  provider_id: z.string().nullable(),
  /** The provider's response that it goes on from. */
  previous_response_id: z.string().nullable(),
  /** Whether it goes on from the last, and if not, why. */
  chain: z.enum(['first', 'follow_up', 'expired', 'refused', 'changed', 'memory', 'not_kept']),
  model: z.string(),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  usage: z.object({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }).nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  created_at: z.string(),
  ended_at: z.string().nullable(),
}

/** A piece of what the model is told. */
const contextPartSchema = z.object({
  /** What it is: `type`, and what that type has. */
  origin: z.looseObject({
    type: z.string(),
    path: z.string().optional(),
    name: z.string().optional(),
    role: z.string().optional(),
    message_id: z.string().nullable().optional(),
    tool_call_id: z.string().optional(),
    chunk_id: z.string().optional(),
    start_line: z.int().optional(),
    end_line: z.int().optional(),
    count: z.int().optional(),
  }),
  tokens: z.int(),
  /** Whether it is in the request's body. */
  sent: z.boolean(),
  why: z.string(),
})
export type ContextPartView = z.infer<typeof contextPartSchema>

export const responseListSchema = z
  .object({ items: z.array(z.object(responseShape)), next_cursor: z.string().nullable() })
  .meta({ id: 'ResponseList' })
export type ResponseList = z.infer<typeof responseListSchema>

export const responseDetailsSchema = z
  .object({
    ...responseShape,
    question: z.string(),
    provider: z.string().nullable(),
    workspace_id: z.string().nullable(),
    rag_scope: z
      .object({
        paths: z.array(z.string()).optional(),
        languages: z.array(z.string()).optional(),
        repo: z.string().optional(),
      })
      .nullable(),
    parts: z.array(contextPartSchema),
    /** The body, to the byte. */
    request: z.string(),
    /** The provider's own account of it. */
    response: z.string().nullable(),
  })
  .meta({ id: 'ResponseDetails' })
export type ResponseDetails = z.infer<typeof responseDetailsSchema>

export const wantMemorySchema = z
  .strictObject({ strategy: z.enum(['trim', 'summarize', 'compact']) })
  .meta({ id: 'WantMemory' })
export type WantMemory = z.infer<typeof wantMemorySchema>

export const memorySchema = z
  .object({
    strategy: z.enum(['none', 'trim', 'summarize', 'compact']),
    max_tokens: z.int().nullable(),
    /** What was asked for and is done with the next message. */
    wanted: z.string().nullable(),
    /** Where it was changed, the last first. */
    items: z.array(
      z.object({
        event_number: z.int(),
        checkpoint: z.looseObject({ strategy: z.string() }),
        summary: z.string().nullable(),
        created_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'Memory' })
export type MemoryView = z.infer<typeof memorySchema>

export const contextQuery = z.object({ at: eventNumber })

export const contextSchema = z
  .object({
    ...responseShape,
    parts: z.array(contextPartSchema),
    request: z.string(),
    tokens: z.object({ sent: z.int(), not_sent: z.int() }),
    /** What would go with the next message, but for the message and what fits it; null with `at`. */
    next: z.object({ chain: responseShape.chain, parts: z.array(contextPartSchema) }).nullable(),
  })
  .meta({ id: 'Context' })
export type ContextView = z.infer<typeof contextSchema>
