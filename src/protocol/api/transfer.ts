import * as z from 'zod'

export const importReportSchema = z
  .object({
    imported: z.array(z.string()).meta({ description: 'Conversations that are here now' }),
    present: z
      .array(z.string())
      .meta({ description: 'Conversations that were here already, and were left as they are' }),
    events: z.int(),
    checkpoints: z.int(),
  })
  .meta({ id: 'ImportReport' })
export type ImportReport = z.infer<typeof importReportSchema>
