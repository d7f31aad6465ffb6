import * as z from 'zod'

const count = z.int().nonnegative()

const totals = {
  /** Answered messages. */
  runs: count,
  input_tokens: count,
  cached_tokens: count,
  output_tokens: count,
  /** Time that requests to the model took, as far as they are on record. */
  model_seconds: z.number(),
  /** Time that calls took, without waiting for a person. */
  tool_seconds: z.number(),
  calls: count,
  failed_calls: count,
  edits: count,
  files: count,
}

export const totalsSchema = z.object(totals)
export type Totals = z.infer<typeof totalsSchema>

export const statsSchema = z
  .object({
    since: z.string(),
    until: z.string(),
    /** True if there was more than could be counted. */
    is_partial: z.boolean(),
    totals: totalsSchema,
    by_day: z.array(z.object({ day: z.string(), ...totals })),
    by_conversation: z.array(
      z.object({ conversation_id: z.string(), title: z.string().nullable(), ...totals }),
    ),
    by_model: z.array(z.object({ model: z.string(), ...totals })),
    by_agent: z.array(z.object({ agent: z.string(), ...totals })),
    tools: z.array(z.object({ tool: z.string(), calls: count, failed: count, seconds: z.number() })),
    /** Each time that the model's memory was shortened. */
    compactions: z.array(
      z.object({
        conversation_id: z.string(),
        event_number: z.int(),
        at: z.string(),
        strategy: z.string(),
        tokens_before: count,
        tokens_after: count,
        /** Ranges of events that the model no longer sees. */
        dropped: z.array(z.tuple([z.int(), z.int()])),
      }),
    ),
  })
  .meta({ id: 'Stats' })
export type Stats = z.infer<typeof statsSchema>

export const statsQuery = z.object({
  since: z.iso.datetime({ precision: 3 }).optional(),
  until: z.iso.datetime({ precision: 3 }).optional(),
  conversation_id: z.string().optional(),
})
