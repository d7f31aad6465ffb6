import * as z from 'zod'
import { eventNumber } from './fields.ts'

/** The model's context: responses, their parts, and memory. */

const responseShape = {
  response_id: z.string(),
  run_id: z.string(),
  message_id: z.string(),
  conversation_id: z.string(),
  /** The last event before the request. */
  event_number: z.int(),
  /** The provider's id of the response. */
  provider_id: z.string().nullable(),
  /** The provider's id of the response that it continues. */
  previous_response_id: z.string().nullable(),
  /** How the request relates to the chain: a follow-up, or why it starts a new chain. */
  chain: z.enum(['first', 'follow_up', 'expired', 'refused', 'changed', 'memory', 'not_kept']),
  model: z.string(),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  usage: z
    .object({
      input_tokens: z.int(),
      output_tokens: z.int(),
      total_tokens: z.int(),
      /** The part of the input that the provider's cache had. */
      cached_tokens: z.int().optional(),
      /** As the provider reports it, in its own unit. */
      cost: z.number().optional(),
    })
    .nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  created_at: z.string(),
  ended_at: z.string().nullable(),
  /** Until when a follow-up can continue it; null when none can. */
  expires_at: z.string().nullable(),
}

/** A part of the model's context. */
const contextPartSchema = z.object({
  /** The part's `type`, and the fields of that type. */
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
  /** True if it is in the request's body. */
  sent: z.boolean(),
  why: z.string(),
})
export type ContextPartView = z.infer<typeof contextPartSchema>

/** Parts that the provider holds from earlier requests of the chain, which list them. */
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
    /** The project's repository and branch, and the languages of its files and snippets, as far as known. */
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
    /** The response as the provider returned it. */
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
    /** A requested change that the next message applies. */
    wanted: z.string().nullable(),
    /** Changes to the memory, newest first. */
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
    /**
     * What would be sent with the next message, except the message itself and snippets that match it; null with `at`.
     */
    next: z
      .object({ chain: responseShape.chain, parts: z.array(contextPartSchema), held: heldSchema })
      .nullable(),
  })
  .meta({ id: 'Context' })
export type ContextView = z.infer<typeof contextSchema>

export const usageTotalSchema = z
  .object({
    requests: z.int(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    /** The part of the input that the providers' caches had. */
    cached_tokens: z.int(),
    /** As the providers report it, in their own unit; null when none does. */
    cost: z.number().nullable(),
  })
  .meta({ id: 'Usage' })
export type UsageTotal = z.infer<typeof usageTotalSchema>
