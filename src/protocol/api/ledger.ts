import * as z from 'zod'
import { DEFAULT_EVENTS_LIMIT, limit, MAX_EVENTS_LIMIT, MAX_LIST_LIMIT } from './fields.ts'

/** Reading the ledger: events, streams, messages. */

export const eventsQuery = z
  .object({
    limit: limit(DEFAULT_EVENTS_LIMIT, MAX_EVENTS_LIMIT),
    cursor: z.string().optional(),
    /** The page that ends just before this event; a number after the last event means the end. */
    before: z.coerce.number().int().min(2).optional(),
  })
  .refine((query) => query.cursor === undefined || query.before === undefined, {
    message: 'set cursor or before, not both',
  })

export const eventsPageSchema = z
  .object({
    conversation_id: z.string(),
    cut_after: z.int().nullable(),
    items: z.array(z.looseObject({ event_id: z.int(), kind: z.string() })),
    next_cursor: z.string().nullable(),
    last_cursor: z.string().nullable(),
    digest: z.string().nullable(),
  })
  .meta({ id: 'EventsPage' })
export type EventsPage = z.infer<typeof eventsPageSchema>

export const streamQuery = z.object({
  cursor: z.string().optional(),
  follow: z.enum(['true', 'false']).default('true'),
})

/** Sent as the SSE event `cut`: the reader's place is no longer on the line; discard all events after `cut_after`. */
export interface CutNotice {
  cut_after: number
}

export const messagesQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  cursor: z.string().optional(),
})

export const messageSchema = z
  .object({
    message_id: z.string(),
    role: z.enum(['user', 'assistant']),
    content: z.string(),
    event_number: z.int(),
    conversation_id: z.string(),
    checkpoint_id: z.string().nullable(),
    run_id: z.string().nullable(),
    created_at: z.string(),
  })
  .meta({ id: 'Message' })
export type Message = z.infer<typeof messageSchema>

export const messageListSchema = z
  .object({ items: z.array(messageSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'MessageList' })
export type MessageList = z.infer<typeof messageListSchema>
