import * as z from 'zod'

/** Sent during an import. */
export interface ImportProgress {
  step: 'checking' | 'events' | 'records' | 'checkpoints'
  /** Events stored so far, and the total number. */
  events: number
  of: number
}

export const importReportSchema = z
  .object({
    imported: z.array(z.string()).meta({ description: 'Conversations that were imported' }),
    present: z
      .array(z.string())
      .meta({ description: 'Conversations that already existed and were left unchanged' }),
    events: z.int(),
    checkpoints: z.int(),
  })
  .meta({ id: 'ImportReport' })
export type ImportReport = z.infer<typeof importReportSchema>
