import * as z from 'zod'
import { conversationSchema } from './conversations.ts'
import { limit, MAX_LIST_LIMIT, text, title } from './fields.ts'
import { messageSchema } from './ledger.ts'
import { changedFileSchema, restoredSchema } from './work.ts'

/** Forks, families, deletions and comparisons. */

const FILES = ['keep', 'restore', 'copy'] as const

export const forkSchema = z
  .strictObject({
    /** The last event that the fork shares with this conversation. */
    event_number: z.int().positive().optional(),
    /** Fork just before this message instead, to send a different one. */
    message_id: text(200).min(1).optional(),
    title: title.min(1).optional(),
    /** Handling of the files: keep them, restore them to the place first, or give the fork its own copy. */
    files: z.enum(FILES).default('keep'),
  })
  .refine((fork) => fork.event_number === undefined || fork.message_id === undefined, {
    message: 'set event_number or message_id, not both',
  })
  .meta({ id: 'Fork' })
export type Fork = z.input<typeof forkSchema>

export const forkedSchema = conversationSchema
  .extend({
    /** The result of restoring the files; null when not requested, or when there was nothing to restore. */
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
        /** True for a deleted conversation that is only listed because others were forked from it. */
        is_deleted: z.boolean(),
        created_at: z.string(),
        updated_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'Family' })
export type Family = z.infer<typeof familySchema>

export const clearedSchema = z.array(z.object({ message_id: z.string(), content: z.string() }))

export const deletedMessageSchema = z
  .object({
    conversation_id: z.string(),
    deleted_message_id: z.string(),
    /** The last event that remains on the line. */
    cut_after: z.int(),
    /** The files stay unchanged; this is the checkpoint to restore them to. */
    checkpoint_id: z.string().nullable(),
    undo_until: z.string(),
    /** Messages that waited after it and were removed from the queue. */
    cleared: clearedSchema,
  })
  .meta({ id: 'DeletedMessage' })
export type DeletedMessage = z.infer<typeof deletedMessageSchema>

export const deletedConversationSchema = z
  .object({ conversation_id: z.string(), undo_until: z.string(), cleared: clearedSchema })
  .meta({ id: 'DeletedConversation' })
export type DeletedConversation = z.infer<typeof deletedConversationSchema>

export const undeleteSchema = z
  .strictObject({
    /** Without it, the conversation itself is restored. */
    message_id: text(200).min(1).optional(),
  })
  .meta({ id: 'Undelete' })
export type Undelete = z.infer<typeof undeleteSchema>

export const undeletedSchema = z
  .object({
    conversation_id: z.string(),
    undeleted_message_id: z.string().nullable(),
    head_event_number: z.int(),
    /** The first message that this removed from the line; undeleting it returns to that line. */
    left_message_id: z.string().nullable(),
    undo_until: z.string().nullable(),
    cleared: clearedSchema,
  })
  .meta({ id: 'Undeleted' })
export type Undeleted = z.infer<typeof undeletedSchema>

export const compareQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  /** Include line-by-line differences of files. */
  diff: z.enum(['true', 'false']).default('false'),
})

const comparedSchema = z.object({
  conversation_id: z.string(),
  head_event_number: z.int(),
  checkpoint_id: z.string().nullable(),
  /** Messages since they diverged. */
  messages: z.array(messageSchema),
  has_more: z.boolean(),
})

export const comparisonSchema = z
  .object({
    /** The last event that both share; 0 when they share none. */
    parted_after: z.int(),
    from: comparedSchema,
    to: comparedSchema,
    /** Differences of their files; null when a conversation has none, or they are not on this server. */
    files: z.array(changedFileSchema.extend({ diff: z.string().nullable() })).nullable(),
  })
  .meta({ id: 'Comparison' })
export type Comparison = z.infer<typeof comparisonSchema>
