import * as z from 'zod'
import { limit, MAX_LIST_LIMIT, name, text, title, workspaceId } from './fields.ts'

/** Conversations and their settings. */

const settingsShape = {
  agent_context: name.nullable().optional(),
  conversation_context: name.nullable().optional(),
  memory: z
    .strictObject({
      strategy: z.enum(['none', 'trim', 'summarize', 'compact']),
      max_tokens: z.int().min(500).optional(),
    })
    .nullable()
    .optional(),
}

export type StoredSettings = Omit<Settings, 'memory'> & { memory?: MemorySettings | null | undefined }

/** As stored: `wanted` is a requested change that has not been made yet. */
export interface MemorySettings {
  strategy?: 'none' | 'trim' | 'summarize' | 'compact'
  max_tokens?: number
  wanted?: 'trim' | 'summarize' | 'compact' | null
}

export const settingsSchema = z.object(settingsShape)
export type Settings = z.infer<typeof settingsSchema>

export const createConversationSchema = z
  .strictObject({ title: title.optional(), workspace_id: workspaceId.optional(), ...settingsShape })
  .meta({ id: 'CreateConversation' })
export type CreateConversation = z.infer<typeof createConversationSchema>

export const patchConversationSchema = z
  .strictObject({ title: title.min(1).optional(), ...settingsShape })
  .refine((patch) => Object.keys(patch).length > 0, 'must change something')
  .meta({ id: 'PatchConversation' })
export type PatchConversation = z.infer<typeof patchConversationSchema>

export const conversationSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable(),
    workspace_id: z.string().nullable(),
    parent: z.object({ conversation_id: z.string(), event_number: z.int() }).nullable(),
    head_event_number: z.int(),
    active_session: z.string().nullable(),
    last_approved_at: z.string().nullable(),
    /** The files as they were when it began; null while that is being saved, or when it is about no files. */
    initial_checkpoint: z.string().nullable(),
    agent_context: z.string().nullable(),
    conversation_context: z.string().nullable(),
    memory: z.looseObject({ strategy: z.string() }).nullable(),
    /** Whether the agent is at work, whether it waits for a person's answer, and how many messages wait. */
    is_running: z.boolean(),
    is_asking: z.boolean(),
    queued: z.int(),
    created_at: z.string(),
    updated_at: z.string(),
    /** When the provider forgets the chain of responses; after that it is sent the whole history. Null without a chain. */
    expires_at: z.string().nullable(),
  })
  .meta({ id: 'Conversation' })
export type Conversation = z.infer<typeof conversationSchema>

export const listConversationsQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  cursor: z.string().optional(),
  q: text(200).optional(),
  /** Only those that work there. */
  workspace_id: workspaceId.optional(),
})

export const conversationListSchema = z
  .object({
    items: z.array(conversationSchema),
    next_cursor: z.string().nullable(),
    /** The conversation that changed last: commands act on it unless they name another. */
    current: z.string().nullable(),
  })
  .meta({ id: 'ConversationList' })
export type ConversationList = z.infer<typeof conversationListSchema>
