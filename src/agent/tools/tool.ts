import * as z from 'zod'
import type { Confinement, Grant } from '../../core/questions.ts'
import type { Frame, FrameDraft } from '../../protocol/frames.ts'
import type { ConversationId } from '../../protocol/ids.ts'

/** Something the model may call. */
export interface Tool {
  name: string
  description: string
  /** JSON Schema of the arguments. */
  parameters: Record<string, unknown>
  effects: ToolEffects
  /** The policy that applies unless the settings name another. */
  policy: ToolPolicy
  /** For tools that start a program: how it would run. */
  confinement?(args: unknown): Confinement
  /** The text that a rule for this call must match. Default: all its arguments, as written. */
  subject?(args: unknown): string | null
  run(args: unknown, call: ToolCall): Promise<ToolOutcome>
}

export interface ToolEffects {
  /** Running the call twice has the same effect as once, so a call that a crash interrupted runs again (R4). */
  isRepeatable: boolean
  files: FileEffect
  /** The files that a call reads or changes, as its arguments name them; without it, they are not known. */
  paths?(args: unknown): string[]
}

/** Whether a tool changes files, and whether each change is recorded as a `file.edit`. */
export type FileEffect = NonNullable<Frame<'tool.status'>['tool']['file_effect']>

export type ToolPolicy = 'allow' | 'ask' | 'deny'

export interface ToolCall {
  tenant: string
  conversationId: ConversationId
  signal: AbortSignal
  /** What a person or a rule has allowed in addition to the call. */
  grant: Grant
  /** Stores these frames and checks that the run is still ours; throws otherwise. Call it right before an effect (R4). */
  confirm(frames: FrameDraft[]): Promise<void>
  /** Shows output while the tool is still running. */
  show(text: string): void
}

export interface ToolOutcome {
  output: unknown
  isFailed?: boolean
  /** For commands that ran to their end. */
  exitCode?: number | null
  edits?: FileEdit[]
  frames?: FrameDraft[]
}

export type FileEdit = Omit<FrameDraft<'file.edit'>, 'kind'>

/** A refusal or failure to report to the model, so that it can try something else. */
export class ToolError extends Error {}

/** Defines a tool whose arguments are checked before it runs. */
export function defineTool<S extends z.ZodType>(definition: {
  name: string
  description: string
  args: S
  effects: Omit<ToolEffects, 'paths'> & { paths?: (args: z.infer<S>) => string[] }
  policy?: ToolPolicy
  confinement?: (args: unknown) => Confinement
  subject?: (args: unknown) => string | null
  run(args: z.infer<S>, call: ToolCall): Promise<ToolOutcome>
}): Tool {
  const { name, description, args, policy = 'allow', run } = definition
  const { confinement, subject } = definition
  const pathsIn = (parsed: z.ZodSafeParseResult<z.infer<S>>) =>
    parsed.success ? (definition.effects.paths?.(parsed.data) ?? []) : []
  const { $schema: _, ...parameters } = z.toJSONSchema(args)
  return {
    name,
    description,
    parameters,
    effects: { ...definition.effects, paths: (given) => pathsIn(args.safeParse(given)) },
    policy,
    ...(confinement ? { confinement } : {}),
    ...(subject ? { subject } : {}),
    async run(given, call) {
      const parsed = args.safeParse(given)
      if (!parsed.success) throw new ToolError(`The arguments are invalid: ${problems(parsed.error)}`)
      return await run(parsed.data, call)
    },
  }
}

function problems(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join('.') || 'arguments'}: ${issue.message}`).join('; ')
}
