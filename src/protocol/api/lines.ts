import * as z from 'zod'
import { conversationSchema } from './conversations.ts'
import { limit, MAX_LIST_LIMIT, text, title } from './fields.ts'
import { messageSchema } from './ledger.ts'
import { changedFileSchema, restoredSchema } from './work.ts'

/** Forks, families, deletions and comparisons. */

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
