import * as z from 'zod'
import { text } from './fields.ts'

/** Sessions of other agents, as `POST /sessions` takes them: a head, then the entries in their order. */

/** The longest line of a request, and the longest text in an entry. */
export const MAX_SESSION_LINE = 32 * 1024 * 1024

export const sessionAgents = ['claude', 'codex', 'opencode'] as const
export type SessionAgent = (typeof sessionAgents)[number]

/** Ids hold a time, which begins in 1970. */
const at = z.iso.datetime({ precision: 3 }).refine((time) => Date.parse(time) >= 0, 'must be after 1970')
const callId = z.string().min(1).max(1000)
const count = z.int().nonnegative()

export const sessionHeadSchema = z.strictObject({
  agent: z.enum(sessionAgents),
  /** The agent's own id of the session. */
  session_id: text(200).min(1),
  /** Where the agent worked; null if the session does not say. */
  folder: text(4096).nullable(),
  /** True if that is in the server's project: then the conversation works on the project's files. */
  is_here: z.boolean(),
  started_at: at,
  /** The session's title, where the agent may change it; other titles are entries. */
  title: text(500).min(1).optional(),
})
export type SessionHead = z.infer<typeof sessionHeadSchema>

export const sessionEntrySchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('message'), at, text: z.string() }),
  z.strictObject({ type: z.literal('text'), at, text: z.string() }),
  z.strictObject({ type: z.literal('reasoning'), at, text: z.string() }),
  z.strictObject({
    type: z.literal('call'),
    at,
    call_id: callId,
    name: text(200),
    /** The arguments as the agent has stored them. */
    input: z.string(),
  }),
  z.strictObject({
    type: z.literal('output'),
    at,
    call_id: callId,
    output: z.string(),
    is_error: z.boolean(),
  }),
  z.strictObject({
    type: z.literal('edit'),
    at,
    call_id: callId.nullable(),
    path: text(4096).min(1),
    change: z.enum(['added', 'modified', 'deleted']),
    /** Null if the session does not have the lines. */
    diff: z.string().nullable(),
  }),
  z.strictObject({ type: z.literal('usage'), at, input: count, output: count, cached: count }),
  z.strictObject({ type: z.literal('model'), at, model: text(200) }),
  z.strictObject({ type: z.literal('title'), at, title: text(500) }),
  /** Kept as it is, for what has no place in a transcript or is not known. */
  z.strictObject({ type: z.literal('other'), at, kind: text(200), entry: z.unknown() }),
])
export type SessionEntry = z.infer<typeof sessionEntrySchema>

export const sessionImportSchema = z
  .object({
    conversation_id: z.string(),
    /**
     * imported: a new conversation; updated: entries were added to it; present: nothing was new; continued: the conversation
     * was continued here, so new entries were not added; changed: the session differs from what was imported; deleted: the
     * conversation was deleted here.
     */
    status: z.enum(['imported', 'updated', 'present', 'continued', 'changed', 'deleted']),
    /** Entries of the session. */
    entries: z.int(),
    added: z.int(),
    /** Entries that are kept but not shown, by their kind. */
    others: z.record(z.string(), z.int()),
  })
  .meta({ id: 'SessionImport' })
export type SessionImport = z.infer<typeof sessionImportSchema>
