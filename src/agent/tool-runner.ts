import { hash } from 'node:crypto'
import type { FunctionTool, ResponseInputItem } from 'openai/resources/responses/responses'
import { Cancelled, type Turn } from '../core/agent.ts'
import { cutText } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import {
  type Grant,
  MAX_QUESTION_CHARACTERS,
  type Mode,
  noGrant,
  type Question,
  type Rules,
} from '../core/questions.ts'
import { type Captured, labels, type WorkSessions } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { allowedByRule, approvalFrame, askPerson, callFields } from './approvals.ts'
import { capturedFrames } from './captured-frames.ts'
import { outcomeItem } from './provider/item-types.ts'
import type { FunctionCall } from './provider/mapping.ts'
import { shownOutput } from './provider/stream-items.ts'
import type { ToolResults } from './tools/conversation.ts'
import { type FileEffect, type Tool, ToolError, type ToolOutcome, type ToolPolicy } from './tools/tool.ts'

/** The type of a call with which a provider requests approval to run one of its own tools. */
const PROVIDER_APPROVAL = 'mcp'
/** Tells the model why a call was refused in a conversation that only plans. */
const READ_ONLY =
  'This conversation is read only: nothing may be changed and no command may run. Describe what you would do instead.'
/** How often the same call may be made in a run: a third time would give the same outcome. */
const MOST_IDENTICAL = 2
/** The parts of an outcome that the model is sent; it can read the rest with `get_tool_result`. */
const MODEL_HEAD = 20_000
const MODEL_TAIL = 10_000

export interface ToolRunnerDependencies {
  tools: readonly Tool[]
  policies: Readonly<Record<string, ToolPolicy>>
  results: ToolResults
  rules: Pick<Rules, 'find'>
  /** How much the conversation allows without asking. */
  mode: Mode
  /** Saves the files around a call that may change any of them. Without it, a caller does that itself. */
  captures?: Pick<WorkSessions, 'capture'> & { now(): number }
  log: Pick<Log, 'error'>
}

export interface ToolRunner {
  /** The tools that the model may call. */
  definitions: FunctionTool[]
  /** The files that a call reads or changes, as far as its tool declares them. */
  pathsOf(call: Pick<FunctionCall, 'name' | 'arguments'>): string[]
  /** True if the call writes the files that it names. */
  isEdit(call: Pick<FunctionCall, 'name'>): boolean
  /** Like `run`, for a caller that is no model: returns the outcome itself. */
  runFor(call: FunctionCall, turn: Turn): Promise<ToolOutcome>
  /** Runs one call, or returns why it did not run; the outcome is durable before the model sees it (R4). */
  run(call: FunctionCall, turn: Turn, earlier: readonly ResponseInputItem[]): Promise<ResponseInputItem>
}

export function createToolRunner(deps: ToolRunnerDependencies): ToolRunner {
  const { policies, results, mode, log } = deps
  const policyOf = (tool: Tool): ToolPolicy => {
    const policy = policies[tool.name] ?? tool.policy
    if (mode === 'read_only' && tool.effects.files !== 'none') return 'deny'
    // Edits are recorded and can be undone.
    return mode === 'edit' && policy === 'ask' && tool.effects.files === 'recorded' ? 'allow' : policy
  }
  /** A caller without `workspace:write` can't have a tool change files, unless a person with that scope approves. */
  const policyFor = (tool: Tool, turn: Turn) =>
    policyOf(tool) === 'allow' && tool.effects.files !== 'none' && !turn.mayChangeFiles
      ? 'ask'
      : policyOf(tool)
  const offered = deps.tools.filter((tool) => policyOf(tool) !== 'deny')
  const byName = new Map(deps.tools.map((tool) => [tool.name, tool]))

  async function run(
    call: FunctionCall,
    turn: Turn,
    earlier: readonly ResponseInputItem[],
  ): Promise<ResponseInputItem> {
    const known = turn.record.call(call.callId)
    const whole = known?.outcome
      ? await wholeOf(call, turn, known.outcome)
      : await store(call, turn, await outcomeOf(call, turn, earlier))
    const isApproved = turn.record.call(call.callId)?.approval === 'approved'
    return outcomeItem(call, forModel(whole, call.callId), isApproved)
  }

  async function outcomeOf(
    call: FunctionCall,
    turn: Turn,
    earlier: readonly ResponseInputItem[],
  ): Promise<ToolOutcome> {
    if (call.toolType === PROVIDER_APPROVAL) return await answerProvider(call, turn)
    const tool = call.toolType === 'function' ? byName.get(call.name) : undefined
    if (!tool) return failed(`There is no tool named ${call.name}.`)
    const policy = policyFor(tool, turn)
    if (policy === 'deny') {
      const isPlan = mode === 'read_only' && (policies[call.name] ?? tool.policy) !== 'deny'
      return failed(isPlan ? READ_ONLY : `The tool ${call.name} is not allowed here.`)
    }
    if (turn.record.call(call.callId)?.hasBegun && !tool.effects.isRepeatable) {
      const why =
        'The server stopped while this call ran. It is unknown whether it took effect; check before you try again.'
      // It is not known which of the changes since then are the call's.
      const saved = await capture(tool, turn, labels.afterInterrupted(titleOf(tool, parsed(call.arguments))))
      return { ...failed(why), ...(saved ? { frames: [saved.frame] } : {}) }
    }
    if (identicalCalls(call, earlier) > MOST_IDENTICAL) {
      return failed('The same call was already made twice, so it was not run again. Try something else.')
    }
    const args = parsed(call.arguments)
    if (args === undefined) return failed('The arguments are not JSON.')
    if (!needsAnswer(tool, policy, args, turn)) return await runTool(tool, args, call, turn, noGrant)
    const question = questionOf(tool, args, call)
    const allowed = await allowedByRule(deps.rules, question, call, turn)
    if (allowed) return await runTool(tool, args, call, turn, allowed)
    if (call.arguments.length > MAX_QUESTION_CHARACTERS) {
      return failed('This call is too long to be shown for approval. Split it into smaller steps.')
    }
    const answer = await askPerson(question, call, turn)
    if (!answer.approved) return failed(`Denied${answer.reason ? `: ${answer.reason}` : '.'}`)
    return await runTool(tool, args, call, turn, answer.grant)
  }

  /** The provider runs this tool itself, on its own server, and requests approval for it. */
  async function answerProvider(call: FunctionCall, turn: Turn): Promise<ToolOutcome> {
    const { name, callId, arguments: args } = call
    const set = mode === 'read_only' ? 'deny' : (policies[name] ?? 'ask')
    const policy = set === 'allow' && !turn.mayChangeFiles ? 'ask' : set
    const sha256 = hash('sha256', JSON.stringify([callId, name, args, null]))
    const question = { toolName: name, arguments: args, subject: args, confinement: null, sha256 }
    const isKnown = turn.record.call(callId)?.approval ?? null
    if (policy !== 'ask' && isKnown === null) {
      const status = policy === 'allow' ? 'approved' : 'denied'
      turn.writer.write(approvalFrame(call, { status, by: 'settings', question_sha256: sha256 }))
      return status === 'approved' ? { output: 'Approved.' } : failed('Denied by the settings.')
    }
    if (await allowedByRule(deps.rules, question, call, turn)) return { output: 'Approved.' }
    const { approved, reason } = await askPerson(question, call, turn)
    if (approved) return { output: 'Approved.' }
    return failed(reason ? `Denied: ${reason}` : 'Denied.')
  }

  /** A setting allows a tool but not the network: a program that needs network access and lacks it requires an answer. */
  function needsAnswer(tool: Tool, policy: ToolPolicy, args: unknown, turn: Turn): boolean {
    const confinement = tool.confinement?.(args)
    const isConfined = confinement !== undefined && confinement.sandbox !== null
    const isFree = mode === 'edit' && isConfined && turn.mayChangeFiles
    if (policy === 'ask' && !isFree) return true
    return confinement !== undefined && confinement.wantsNetwork && !confinement.network
  }

  async function runTool(
    tool: Tool,
    args: unknown,
    call: FunctionCall,
    turn: Turn,
    grant: Grant,
  ): Promise<ToolOutcome> {
    const { tenant, conversationId, signal, writer } = turn
    const title = titleOf(tool, args)
    const before = await capture(tool, turn, labels.beforeCall(title))
    if (before) writer.write(before.frame)
    const startedAt = deps.captures?.now() ?? 0
    const changes = async () => {
      const after = await capture(tool, turn, labels.afterCall(title))
      return after ? capturedFrames(after, { startedAt, callFor: () => callFields(call) }) : []
    }
    // Durable before the tool starts: after a crash we know that it may have run. A worker that lost its run stops here (L8).
    writer.write(statusFrame(call, 'in_progress', tool.effects.files))
    await writer.flush()
    try {
      signal.throwIfAborted()
      const show = (text: string) => {
        if (!signal.aborted) writer.write(outputFrame(call, { output: text, partial: true }))
      }
      const confirm = async (frames: FrameDraft[]) => {
        signal.throwIfAborted()
        writer.write(...frames)
        await writer.flush()
        await turn.confirmHold()
      }
      // A worker that was paused for longer than its lease starts nothing (R4).
      if (!tool.effects.isRepeatable) await turn.confirmHold()
      const outcome = await tool.run(args, { tenant, conversationId, signal, show, grant, confirm })
      return { ...outcome, frames: [...(outcome.frames ?? []), ...(await changes())] }
    } catch (error) {
      if (signal.aborted) {
        if (signal.reason instanceof Cancelled) {
          const made = await changes()
          writer.write(...made, outputFrame(call, { output: 'Stopped.' }), statusFrame(call, 'failed'))
        }
        throw signal.reason
      }
      if (error instanceof ToolError) return { ...failed(error.message), frames: await changes() }
      if (error instanceof WaymarkError && error.code === 'lease_lost') throw error
      log.error({ err: error, tool: tool.name, run: turn.runId }, 'a tool failed')
      return failed(`The tool failed: ${(error as Error).message}`)
    }
  }

  /** A checkpoint next to a call that may change any file, and what has changed since the last one. */
  async function capture(tool: Tool, turn: Turn, label: string): Promise<Captured | null> {
    if (!deps.captures || tool.effects.files !== 'unrecorded' || turn.workspaceId === null) return null
    const { tenant, conversationId } = turn
    // The number of a checkpoint follows from the frames that are stored.
    await turn.writer.flush()
    return await deps.captures.capture({ tenant, conversationId, label })
  }

  /** Writes the outcome and returns its whole text. */
  async function store(call: FunctionCall, turn: Turn, outcome: ToolOutcome): Promise<string> {
    const { writer, signal } = turn
    const { output, isFailed = false, edits = [], frames = [] } = outcome
    const whole = asText(output)
    const shown = shownOutput(output)
    const isCut = shown.notices?.some((notice) => notice.type === 'truncated') ?? false
    const ref = isCut ? await results.keep(whole) : undefined
    writer.write(
      ...frames,
      ...edits.map((edit): FrameDraft => ({ kind: 'file.edit', ...callFields(call), ...edit })),
      outputFrame(call, { ...shown, ...(ref === undefined ? {} : { output_ref: ref }) }),
      statusFrame(call, isFailed ? 'failed' : 'completed'),
    )
    await writer.flush()
    signal.throwIfAborted()
    return whole
  }

  async function wholeOf(
    call: FunctionCall,
    { tenant, conversationId }: Turn,
    outcome: Pick<FrameDraft<'tool.output'>, 'output' | 'output_ref'>,
  ): Promise<string> {
    // If the whole outcome can't be read, the part that was shown is better than none.
    const whole =
      outcome.output_ref && (await results.find(tenant, conversationId, call.callId).catch(() => null))
    return whole || asText(outcome.output)
  }

  return {
    run,
    async runFor(call, turn) {
      const outcome = await outcomeOf(call, turn, [])
      await store(call, turn, outcome)
      return outcome
    },
    pathsOf: ({ name, arguments: args }) => byName.get(name)?.effects.paths?.(parsed(args)) ?? [],
    isEdit: ({ name }) => byName.get(name)?.effects.files === 'recorded',
    definitions: offered.map(asDefinition),
  }
}

/** What a call does, in a few words. */
function titleOf(tool: Tool, args: unknown): string {
  return tool.subject?.(args) ?? tool.name
}

function asDefinition({ name, description, parameters }: Tool): FunctionTool {
  return { type: 'function', name, description, parameters, strict: false }
}

function forModel(whole: string, callId: string): string {
  if (whole.length <= MODEL_HEAD + MODEL_TAIL) return whole
  const left = whole.length - MODEL_HEAD - MODEL_TAIL
  const hint = `[${left} characters omitted; read them with get_tool_result and tool_call_id ${callId}]`
  return `${cutText(whole, MODEL_HEAD)}\n${hint}\n${whole.slice(-MODEL_TAIL)}`
}

/** Counts the identical calls since the person's last message, including this one. */
function identicalCalls(call: FunctionCall, items: readonly ResponseInputItem[]): number {
  const since = items.findLastIndex((item) => 'role' in item && item.role === 'user')
  const made = items.slice(since + 1).filter((item) => item.type === 'function_call')
  const upToThis = made.slice(0, made.findIndex((item) => item.call_id === call.callId) + 1)
  return upToThis.filter((item) => item.name === call.name && item.arguments === call.arguments).length
}

function statusFrame(call: FunctionCall, status: string, fileEffect?: FileEffect): FrameDraft<'tool.status'> {
  const { callId, toolType, name } = call
  return {
    kind: 'tool.status',
    ...callFields(call),
    tool: {
      tool_type: toolType,
      tool_call_id: callId,
      status,
      name,
      ...(fileEffect === undefined ? {} : { file_effect: fileEffect }),
    },
  }
}

function outputFrame(
  call: FunctionCall,
  fields: Pick<FrameDraft<'tool.output'>, 'partial' | 'output_ref' | 'notices'> & { output: unknown },
): FrameDraft<'tool.output'> {
  return { kind: 'tool.output', ...callFields(call), tool_type: call.toolType, ...fields }
}

function questionOf(tool: Tool, args: unknown, call: FunctionCall): Question {
  const confinement = tool.confinement?.(args) ?? null
  const subject = tool.subject?.(args) ?? call.arguments
  const sha256 = hash('sha256', JSON.stringify([call.callId, tool.name, call.arguments, confinement]))
  return { toolName: tool.name, arguments: call.arguments, subject, confinement, sha256 }
}

function failed(output: string): ToolOutcome {
  return { output, isFailed: true }
}

function asText(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output)
}

function parsed(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
