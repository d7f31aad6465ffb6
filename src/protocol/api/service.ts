import * as z from 'zod'

/** The server itself, who may call it, and what it refuses. */

/** `records:read` opens what frames redact: the model's requests and answers as they were sent, and whole tool outputs. */
export const scopes = [
  'conversations:read',
  'conversations:write',
  'workspace:write',
  'records:read',
  'admin',
] as const
export type Scope = (typeof scopes)[number]

export const aboutSchema = z
  .object({
    version: z.string(),
    /** The workspace that new conversations are about. */
    workspace_id: z.string(),
    /** The folder's name. */
    project: z.string(),
    model: z.object({ name: z.string(), is_demo: z.boolean() }),
    /** The sandbox that commands run in; null when there is none. */
    sandbox: z.string().nullable(),
    scopes: z.array(z.enum(scopes)),
  })
  .meta({ id: 'About' })
export type About = z.infer<typeof aboutSchema>

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem' })
export type Problem = z.infer<typeof problemSchema>
