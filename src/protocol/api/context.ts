import * as z from 'zod'
import { eventNumber } from './fields.ts'

/** What the model was told. */

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
  /** Until when a follow-up can go on from it; null when none can. */
  expires_at: z.string().nullable(),
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

/** What the provider has from earlier requests of the chain, which list its parts. */
const heldSchema = z.object({ parts: z.int(), tokens: z.int() })

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
    /** The project's repository and branch, and the languages of the files and snippets in it; as far as is known. */
    repository: z.string().nullable(),
    branch: z.string().nullable(),
    languages: z.array(z.string()),
    rag_scope: z
      .object({
        paths: z.array(z.string()).optional(),
        languages: z.array(z.string()).optional(),
        repo: z.string().optional(),
      })
      .nullable(),
    parts: z.array(contextPartSchema),
    held: heldSchema,
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
    held: heldSchema,
    /** Null without the scope `records:read`. */
    request: z.string().nullable(),
    tokens: z.object({ sent: z.int(), not_sent: z.int() }),
    /** What would go with the next message, but for the message and what fits it; null with `at`. */
    next: z
      .object({ chain: responseShape.chain, parts: z.array(contextPartSchema), held: heldSchema })
      .nullable(),
  })
  .meta({ id: 'Context' })
export type ContextView = z.infer<typeof contextSchema>
