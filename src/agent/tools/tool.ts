import * as z from 'zod'
import type { Confinement, Grant } from '../../core/questions.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { ConversationId } from '../../protocol/ids.ts'

/** Something the model may call. */
export interface Tool {
  name: string
  description: string
  /** JSON Schema of the arguments. */
  parameters: Record<string, unknown>
  /** Whether running it twice is as good as once: then a call that a crash cut off is run again (R4). */
  isReadOnly: boolean
  /** What happens when the policy says nothing about it. */
  policy: ToolPolicy
  /** For tools that start a program: how it would run. */
  confinement?(args: unknown): Confinement
  /** What a rule for this call goes by; default: all its arguments, as they were written. */
  subject?(args: unknown): string | null
  run(args: unknown, call: ToolCall): Promise<ToolOutcome>
}

export type ToolPolicy = 'allow' | 'ask' | 'deny'

export interface ToolCall {
  tenant: string
  conversationId: ConversationId
  signal: AbortSignal
  /** What a person, or a rule, has allowed besides the call. */
  grant: Grant
  /** Stores these frames and makes sure that the run is still ours; throws otherwise. Right before an effect (R4). */
  confirm(frames: FrameDraft[]): Promise<void>
  /** Shows output while the tool is still at work. */
  show(text: string): void
}

export interface ToolOutcome {
  output: unknown
  isFailed?: boolean
  edits?: FileEdit[]
  frames?: FrameDraft[]
}

export type FileEdit = Omit<FrameDraft<'file.edit'>, 'kind'>

/** A refusal or failure that the model should be told of: it can do something else. */
export class ToolError extends Error {}

/** Defines a tool whose arguments are checked before it runs. */
export function defineTool<S extends z.ZodType>(definition: {
  name: string
  description: string
  args: S
  isReadOnly?: boolean
  policy?: ToolPolicy
  confinement?: (args: unknown) => Confinement
  subject?: (args: unknown) => string | null
  run(args: z.infer<S>, call: ToolCall): Promise<ToolOutcome>
}): Tool {
  const { name, description, args, isReadOnly = false, policy = 'allow', run } = definition
  const { confinement, subject } = definition
  const { $schema: _, ...parameters } = z.toJSONSchema(args)
  return {
    name,
    description,
    parameters,
    isReadOnly,
    policy,
    ...(confinement ? { confinement } : {}),
    ...(subject ? { subject } : {}),
    async run(given, call) {
      const parsed = args.safeParse(given)
      if (!parsed.success) throw new ToolError(`The arguments are wrong: ${problems(parsed.error)}`)
      return await run(parsed.data, call)
    },
  }
}

function problems(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join('.') || 'arguments'}: ${issue.message}`).join('; ')
}
