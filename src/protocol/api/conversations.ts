import * as z from 'zod'
import { limit, MAX_LIST_LIMIT, name, text, title, workspaceId } from './fields.ts'

/** Conversations and their settings. */

const settingsShape = {
  /** A hosted agent, as `GET /agents` lists them; null for Waymark's own. */
  agent: name.nullable().optional(),
  agent_context: name.nullable().optional(),
  conversation_context: name.nullable().optional(),
  /**
   * `ask`: the server's policies apply. `edit`: edits, and commands in the sandbox, run without asking. `read_only`: nothing is
   * changed.
   */
  mode: z.enum(['ask', 'edit', 'read_only']).optional(),
  /** `provider/model`, or a model of the default provider; null for the server's default. */
  model: name.nullable().optional(),
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
  .refine((patch) => Object.keys(patch).length > 0, 'must change at least one field')
  .meta({ id: 'PatchConversation' })
export type PatchConversation = z.infer<typeof patchConversationSchema>

export const conversationSchema = z
  .object({
    id: z.string(),
    /** Without a title of its own (`is_titled` is false), the start of its first message. */
    title: z.string().nullable(),
    is_titled: z.boolean(),
    workspace_id: z.string().nullable(),
    parent: z.object({ conversation_id: z.string(), event_number: z.int() }).nullable(),
    head_event_number: z.int(),
    active_session: z.string().nullable(),
    last_approved_at: z.string().nullable(),
    /** The checkpoint of its first files; null while it is being saved, or when the conversation has no files. */
    initial_checkpoint: z.string().nullable(),
    agent: z.string().nullable(),
    agent_context: z.string().nullable(),
    conversation_context: z.string().nullable(),
    mode: z.enum(['ask', 'edit', 'read_only']),
    model: z.string().nullable(),
    memory: z.looseObject({ strategy: z.string() }).nullable(),
    /** `is_running`: the agent is working. `is_asking`: it waits for a person's answer. `queued`: waiting messages. */
    is_running: z.boolean(),
    is_asking: z.boolean(),
    queued: z.int(),
    created_at: z.string(),
    updated_at: z.string(),
    /** When the provider's chain expires; after that the full history is sent. Null without a chain. */
    expires_at: z.string().nullable(),
  })
  .meta({ id: 'Conversation' })
export type Conversation = z.infer<typeof conversationSchema>

export const listConversationsQuery = z.object({
  limit: limit(50, MAX_LIST_LIMIT),
  cursor: z.string().optional(),
  q: text(200).optional(),
  /** Only conversations of this workspace. */
  workspace_id: workspaceId.optional(),
})

export const conversationListSchema = z
  .object({
    items: z.array(conversationSchema),
    next_cursor: z.string().nullable(),
    /** The conversation that changed last; commands use it unless they name another. */
    current: z.string().nullable(),
  })
  .meta({ id: 'ConversationList' })
export type ConversationList = z.infer<typeof conversationListSchema>

/** What a search finds: what people and agents said, the calls with their outputs, and the edits. */
export const searchedKinds = ['message', 'answer', 'call', 'output', 'edit'] as const
const time = z.iso.date().or(z.iso.datetime())

export const searchQuery = z.object({
  /** The words to find; all must be there, and the last may be the start of a word. */
  q: text(200).min(1),
  /** Only events on this conversation's line. */
  conversation_id: z.string().optional(),
  kind: z.enum(searchedKinds).optional(),
  /** `user`: only messages; `agent`: everything else. */
  author: z.enum(['user', 'agent']).optional(),
  /** Only calls of this tool. */
  tool: name.optional(),
  /** Only calls and edits of this file, or of files in this folder. */
  path: text(4096).min(1).optional(),
  /** Times as in frames: `2026-11-18T14:02:00.000Z`, or only a date. */
  since: time.optional(),
  until: time.optional(),
  limit: limit(50, MAX_LIST_LIMIT),
})

export type SearchFilters = Omit<z.input<typeof searchQuery>, 'q' | 'conversation_id' | 'limit'>

export const searchResultsSchema = z
  .object({
    items: z.array(
      z.object({
        conversation_id: z.string(),
        event_number: z.int(),
        kind: z.enum(searchedKinds),
        tool: z.string().nullable(),
        path: z.string().nullable(),
        created_at: z.string(),
        /** A piece of the text around the first match. */
        excerpt: z.string(),
        /** The match within the excerpt: its first character, and the one after its last. */
        match: z.tuple([z.int(), z.int()]),
      }),
    ),
    has_more: z.boolean(),
  })
  .meta({ id: 'SearchResults' })
export type SearchResults = z.infer<typeof searchResultsSchema>
