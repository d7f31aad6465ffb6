import * as z from 'zod'

/** Operations for admins. */

export const collectSchema = z
  .strictObject({
    dry_run: z.boolean().optional(),
    /** Skip the retention time: what was deleted can't be restored afterwards. */
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
