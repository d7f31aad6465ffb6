import * as z from 'zod'

/** The server itself, its callers' scopes, and its errors. */

/**
 * `records:read` allows reading what frames redact: requests and responses of the model as sent, and full tool outputs.
 */
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
    /** The workspace of new conversations. */
    workspace_id: z.string(),
    /** The folder's name. */
    project: z.string(),
    /** The default model as `provider/model`, and in one sentence what is wrong with it, if anything is. */
    model: z.object({ name: z.string(), is_demo: z.boolean(), problem: z.string().nullable() }),
    /** The sandbox that commands run in; null when there is none. */
    sandbox: z.string().nullable(),
    scopes: z.array(z.enum(scopes)),
  })
  .meta({ id: 'About' })
export type About = z.infer<typeof aboutSchema>

/** The projects that this process serves, each at its own address. */
export const projectListSchema = z
  .object({
    items: z.array(
      z.object({
        id: z.string(),
        /** The folder's name. */
        name: z.string(),
        url: z.string(),
        /** True for the project of this address. */
        is_this: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'ProjectList' })
export type ProjectList = z.infer<typeof projectListSchema>

export const projectLinkSchema = z
  .object({
    /** Signs in one browser, once. */
    url: z.string(),
  })
  .meta({ id: 'ProjectLink' })
export type ProjectLink = z.infer<typeof projectLinkSchema>

export const agentListSchema = z
  .object({
    items: z.array(
      z.object({
        name: z.string(),
        title: z.string(),
        is_installed: z.boolean(),
        /** The command that installs it; null for agents from the settings. */
        install: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'AgentList' })
export type AgentList = z.infer<typeof agentListSchema>

export const modelListSchema = z
  .object({
    items: z.array(
      z.object({
        /** The part before the slash in `provider/model`. */
        name: z.string(),
        /** Null for the provider's own URL. */
        url: z.string().nullable(),
        models: z.array(z.string()),
        /** Why its models can't be listed, and what to do; null if they could. */
        problem: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'ModelList' })
export type ModelList = z.infer<typeof modelListSchema>

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
