import * as z from 'zod'

/** Agents that run in their own terminals. */

export const terminalId = z.string().regex(/^[A-Za-z0-9_-]{8,64}$/)

export const keepTerminalSchema = z
  .object({
    /** The secret in the gateway's path; chosen by the terminal, at least 256 bits. */
    key: z.string().regex(/^[A-Za-z0-9_-]{43,100}$/),
    /** The agent's name. */
    agent: z.string().min(1).max(60),
    /** The model servers that the agent uses, by name. */
    upstreams: z.record(z.string().regex(/^[\w-]{1,40}$/), z.url({ protocol: /^https?$/ }).max(500)),
  })
  .meta({ id: 'KeepTerminal' })
export type KeepTerminal = z.infer<typeof keepTerminalSchema>

export const terminalSchema = z.object({ conversations: z.array(z.string()) }).meta({ id: 'Terminal' })
export type Terminal = z.infer<typeof terminalSchema>
