import * as z from 'zod'
import { text } from './fields.ts'

/** Messages, the queue and approvals. */

export const MAX_MESSAGE_CHARACTERS = 1_000_000

const MAX_ACTIVE_FILES = 100
const MAX_ATTACHMENTS = 20
const MAX_ATTACHED_CHARACTERS = 4_000_000
const MAX_ACTIVE_CHARACTERS = 1_000_000
const activePath = text(4096)
  .min(1)
  .refine(
    (path) => !path.startsWith('/') && !path.split('/').includes('..'),
    "must be relative to the project's folder",
  )

export const sendMessageSchema = z
  .strictObject({
    content: text(MAX_MESSAGE_CHARACTERS).refine((value) => value.trim() !== '', 'must not be empty'),
    /** Files to send whole to the model: paths, or paths with the unsaved text of an editor. */
    active_files: z
      .array(
        z.union([
          activePath,
          z.strictObject({ path: activePath, content: z.string().max(MAX_ACTIVE_CHARACTERS) }),
        ]),
      )
      .max(MAX_ACTIVE_FILES)
      .optional(),
    /** Texts attached to the message (specifications, schemas, logs), and images as data URLs (PNG, JPEG, GIF, WebP). */
    attachments: z
      .array(
        z.strictObject({
          name: text(200).min(1),
          content: z.string().min(1).max(MAX_ATTACHED_CHARACTERS),
        }),
      )
      .max(MAX_ATTACHMENTS)
      .optional(),
    /** Limits which files snippets may come from: globs of paths, languages, the workspace's name. */
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

/** A text attached to a message. */
const attachmentSchema = z.object({
  name: z.string(),
  sha256: z.string(),
  bytes: z.int(),
  /** For images, whose content is a data URL. */
  media_type: z.string().optional(),
})

export const attachmentViewSchema = attachmentSchema
  .extend({ content: z.string() })
  .meta({ id: 'Attachment' })
export type AttachmentView = z.infer<typeof attachmentViewSchema>

/** The full output of a tool. */
export const outputViewSchema = z
  .object({ tool_call_id: z.string(), output: z.string() })
  .meta({ id: 'Output' })
export type OutputView = z.infer<typeof outputViewSchema>

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
        /** The first 300 characters in `queue` events; all of it in `GET …/queue`. */
        content: z.string(),
        content_length: z.int(),
        active_files: z.array(z.string()),
        attachments: z.array(attachmentSchema),
        position: z.int(),
      }),
    ),
    max_depth: z.int(),
  })
  .meta({ id: 'Queue' })
export type QueueView = z.infer<typeof queueSchema>

export const editQueuedSchema = z
  .strictObject({
    content: text(MAX_MESSAGE_CHARACTERS)
      .refine((value) => value.trim() !== '', 'must not be empty')
      .optional(),
    /** Its position among the waiting messages, counted from 1. */
    position: z.int().min(1).max(100).optional(),
  })
  .refine((edit) => edit.content !== undefined || edit.position !== undefined, {
    message: 'content or position is required',
  })
  .meta({ id: 'EditQueued' })
export type EditQueued = z.infer<typeof editQueuedSchema>

export const stoppedSchema = z.object({ run_id: z.string().nullable() }).meta({ id: 'Stopped' })
export type Stopped = z.infer<typeof stoppedSchema>

export const answerApprovalSchema = z
  .strictObject({
    tool_call_id: text(200).min(1),
    approved: z.boolean(),
    reason: text(2000).optional(),
    /** Digest of the question that was shown. An approval without it is refused. */
    question_sha256: z.string().max(64).optional(),
    /** For programs: allows the network, or running without the sandbox. */
    grant: z.strictObject({ network: z.boolean().optional(), outside: z.boolean().optional() }).optional(),
    /** One of the question's options, of the same sense as `approved`. */
    option_id: text(200).optional(),
    /** Allows calls without asking from now on: the same one, commands with the same first words, or all of the tool. */
    always: z
      .union([
        z.boolean(),
        z.strictObject({
          match: z.enum(['exact', 'prefix', 'tool']),
          scope: z.enum(['conversation', 'workspace']),
        }),
      ])
      .optional(),
  })
  .refine((answer) => !answer.approved || answer.question_sha256 !== undefined, {
    path: ['question_sha256'],
    message: 'is required to approve: read the question first',
  })
  .meta({ id: 'AnswerApproval' })
export type AnswerApproval = z.infer<typeof answerApprovalSchema>

const grantSchema = z.object({ network: z.boolean(), outside: z.boolean() })

/** The whole call that a tool waits for permission to run. */
export const questionSchema = z
  .object({
    run_id: z.string(),
    tool_call_id: z.string(),
    tool_name: z.string(),
    /** As the model wrote them, neither cut nor redacted. */
    arguments: z.string(),
    confinement: z
      .object({ sandbox: z.string().nullable(), network: z.boolean(), wants_network: z.boolean() })
      .nullable(),
    question_sha256: z.string(),
    /** The answers that a hosted agent offers; empty for other tools. */
    options: z.array(z.object({ id: z.string(), name: z.string(), kind: z.string() })),
    /** The first words that a rule for commands like this one would name; null if there can be none. */
    prefix: z.string().nullable(),
  })
  .meta({ id: 'Question' })
export type QuestionView = z.infer<typeof questionSchema>

export const ruleListSchema = z
  .object({
    items: z.array(
      z.object({
        rule_id: z.string(),
        workspace_id: z.string().nullable(),
        /** The only conversation it applies to; null for the whole workspace. */
        conversation_id: z.string().nullable(),
        tool_name: z.string(),
        match: z.enum(['exact', 'prefix', 'tool']),
        /** The command, or all the arguments; the first words for `prefix`; empty for `tool`. */
        subject: z.string(),
        grant: grantSchema,
        by: z.string(),
        created_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'Rules' })
export type RuleList = z.infer<typeof ruleListSchema>
