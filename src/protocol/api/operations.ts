import * as z from 'zod'
import { pagedQuery } from './fields.ts'
import { clearedSchema } from './lines.ts'

export const operationKinds = [
  'message.deleted',
  'message.undeleted',
  'conversation.deleted',
  'conversation.undeleted',
  'conversation.changed',
  'conversation.forked',
  'files.restored',
  'files.reset',
  'files.adopted',
  'files.approved',
] as const
export type OperationKind = (typeof operationKinds)[number]

export const operationSchema = z
  .object({
    operation: z.int(),
    at: z.string(),
    by: z.string(),
    kind: z.enum(operationKinds),
    conversation_id: z.string(),
    is_undone: z.boolean(),
    /** What was changed, in a few words. */
    summary: z.string(),
    /** Why it can't be undone, or redone, any more; null if it can. */
    problem: z.string().nullable(),
  })
  .meta({ id: 'Operation' })
export type OperationView = z.infer<typeof operationSchema>

export const undoneSchema = operationSchema
  .extend({
    /** Messages that waited in the queue and were removed from it. */
    cleared: clearedSchema,
    /** Files that were not restored, and why. */
    skipped: z.array(z.object({ path: z.string(), reason: z.string() })),
  })
  .meta({ id: 'Undone' })
export type Undone = z.infer<typeof undoneSchema>

export const operationListSchema = z
  .object({ items: z.array(operationSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'OperationList' })
export type OperationList = z.infer<typeof operationListSchema>

export const operationsQuery = pagedQuery.extend({ conversation_id: z.string().optional() })

export const undoSchema = z
  .strictObject({
    /** Default: the last one. */
    operation: z.int().positive().optional(),
    /** Only operations in this conversation. */
    conversation_id: z.string().optional(),
  })
  .meta({ id: 'Undo' })
export type Undo = z.infer<typeof undoSchema>
