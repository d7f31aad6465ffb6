import { hash } from 'node:crypto'
import type {
  ReadTextFileRequest,
  RequestPermissionRequest,
  RequestPermissionResponse,
  ToolCallUpdate,
} from '@agentclientprotocol/sdk'
import { RequestError } from '@agentclientprotocol/sdk'
import type { Turn } from '../../core/agent.ts'
import { cutText } from '../../core/limits.ts'
import type { Log } from '../../core/log.ts'
import { MAX_QUESTION_CHARACTERS, type Mode, type Question, type Rules } from '../../core/questions.ts'
import { labels, type WorkSessions } from '../../core/work-sessions.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { allowedByRule, approvalFrame, askPerson, type PlacedCall } from '../approvals.ts'
import { capturedFrames } from '../captured-frames.ts'
import type { FunctionCall } from '../provider/mapping.ts'
import { shownArguments } from '../provider/stream-items.ts'
import type { ToolRunner } from '../tool-runner.ts'
import type { ConfinedFolder } from '../tools/confined-folder.ts'
import type { ToolPolicy } from '../tools/tool.ts'
import {
  type AgentCall,
  argumentsFrame,
  argumentsOf,
  mayChangeFiles,
  pathsOf,
  statusFrame,
  updateCall,
} from './agent-call.ts'
import type { ClientMethods } from './client-methods.ts'
import { createTerminals } from './terminals.ts'
import { createTurnFrames } from './turn-frames.ts'

/** Serves an agent's updates and its requests for permissions, files and terminals while it answers one message. */
export interface TurnClient {
  /** `paused` holds up the agent while its files are saved. */
  methods(sessionId: string, paused: Paused): ClientMethods
  /** Waits for the answers to questions of an agent that is gone, so that they count when the agent asks again. */
  settleQuestions(): Promise<void>
  /**
   * Refuses further requests, ends terminals that still run, waits for what is under way, and records what a call that the
   * agent never ended has changed.
   */
  end(): Promise<void>
  /** Resolves when what these calls of the agent have changed is saved. Never rejects. */
  saved(callIds: readonly string[]): Promise<unknown>
  usage(): { used: number; size: number } | null
  /** Rejects when an update or a request could not be recorded. */
  failed: Promise<never>
}

type Paused = <T>(work: () => Promise<T>) => Promise<T>

export interface TurnClientDependencies {
  turn: Turn
  agent: string
  mode: Mode
  isUntitled: boolean
  root: string
  runner: ToolRunner
  files: Pick<ConfinedFolder, 'read'>
  policies: Readonly<Record<string, ToolPolicy>>
  rules: Pick<Rules, 'find'>
  sessions: Pick<WorkSessions, 'capture' | 'writeRepository'>
  keep(text: string): Promise<string>
  now(): number
  log: Pick<Log, 'error'>
}

/** How long the end of an answer waits for what is under way. */
const END_MS = 5000
const MAX_OPTIONS = 10
const MAX_OPTION = 200
const EDITS = new Set(['edit', 'delete', 'move'])

export function createTurnClient(deps: TurnClientDependencies): TurnClient {
  const { turn, agent, mode, policies, now } = deps
  const { tenant, conversationId, writer, record } = turn
  const failing = Promise.withResolvers<never>()
  failing.promise.catch(() => {})
  let work: Promise<void> = Promise.resolve()
  let paused: Paused = (run) => run()
  /** Decisions about calls of an agent that is gone, by what they ask for. */
  const decided = new Map<string, boolean>()
  /** Calls of our own tools that run for the agent. */
  const running = new Set<Promise<unknown>>()
  /** Calls that wait for a person. */
  const asking = new Set<string>()
  let hasEnded = false

  const frames = createTurnFrames({
    turn,
    agent,
    isUntitled: deps.isUntitled,
    now,
    keep: deps.keep,
    terminalOutput: (id) => terminals.outputOf(id),
    afterCall,
  })
  const terminals = createTerminals({ turn, runner: deps.runner, place: ownCall, root: deps.root })

  /** Runs work in the order of its arrival; a failure ends the turn. */
  function inTurn<T>(one: () => Promise<T>): Promise<T> {
    const result = work.then(one)
    work = result.then(
      () => {},
      (error: unknown) => failing.reject(error),
    )
    return result
  }

  /** A checkpoint after a call, and the edits that it made. */
  async function afterCall(call: AgentCall): Promise<FrameDraft[]> {
    const captured = await capture(labels.afterCall(call.title || call.name))
    if (!captured) return []
    if (call.isDenied) return [captured.frame]
    const others = frames.openCalls()
    const named = new Set(pathsOf(call).map((path) => relativeTo(deps.root, path)))
    return capturedFrames(captured, {
      startedAt: call.startedAt,
      // With several calls at work at once, only one that names the file is known to have changed it.
      callFor: (path) => (others.length === 0 || named.has(path) ? call.place : null),
    })
  }

  async function capture(label: string) {
    // The number of the next checkpoint follows from the frames that are stored.
    await writer.flush()
    return await paused(() => deps.sessions.capture({ tenant, conversationId, label }))
  }

  function ownCall(name: string, args: object): FunctionCall {
    frames.closeItem()
    const place = frames.nextPlace()
    const { response_id: responseId, output_index: outputIndex, item_id: itemId } = place
    const callId = `call_${itemId}`
    const written = JSON.stringify(args)
    writer.write(
      { kind: 'output_item.added', ...place, item_type: 'function_call', status: 'in_progress' },
      {
        kind: 'tool.arguments.done',
        ...place,
        tool_call_id: callId,
        tool_type: 'function',
        tool_name: name,
        ...shownArguments(written),
      },
      { kind: 'output_item.done', ...place, item_type: 'function_call', status: 'completed' },
    )
    return { toolType: 'function', callId, name, arguments: written, responseId, outputIndex, itemId }
  }

  async function requestPermission({
    toolCall,
    options,
  }: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const call = await inTurn(async () => known(toolCall))
    const decision = await decide(call, options)
    if (decision === null) return { outcome: { outcome: 'cancelled' } }
    const { isAllowed, optionId } = decision
    call.isDenied = !isAllowed
    // The call has not begun, so changes up to this point are not its own.
    if (isAllowed && mayChangeFiles(call.kind)) {
      await inTurn(async () => {
        const captured = await capture(labels.beforeCall(call.title || call.name))
        if (captured) writer.write(captured.frame)
        call.startedAt = now()
        call.stage = 'in_progress'
        writer.write(statusFrame(call, call.stage))
        await writer.flush()
      })
      // A worker that was paused past its lease lets nothing begin (R4).
      await turn.confirmHold()
    }
    const wanted = isAllowed ? ['allow_once', 'allow_always'] : ['reject_once', 'reject_always']
    const option =
      options.find((one) => one.optionId === optionId) ??
      wanted.flatMap((kind) => options.find((one) => one.kind === kind) ?? [])[0]
    if (!option) return { outcome: { outcome: 'cancelled' } }
    return { outcome: { outcome: 'selected', optionId: option.optionId } }
  }

  function known(update: ToolCallUpdate): AgentCall {
    const call = frames.callOf(update)
    const before = argumentsOf(call)
    updateCall(call, update)
    if (argumentsOf(call) !== before) writer.write(argumentsFrame(call))
    return call
  }

  /** Null when the question can't be asked. */
  async function decide(
    call: AgentCall,
    options: RequestPermissionRequest['options'],
  ): Promise<Decision | null> {
    const question = { ...questionOf(call), options: offeredOf(options) }
    const placed = placedOf(call)
    const tell = (status: 'approved' | 'denied', by: string) =>
      writer.write(approvalFrame(placed, { status, by, question_sha256: question.sha256 }))
    const policy = policies[call.name] ?? 'ask'
    const isChange = mayChangeFiles(call.kind)
    const plainly = (isAllowed: boolean): Decision => ({ isAllowed, optionId: null })
    if (policy === 'deny' || (mode === 'read_only' && isChange)) {
      tell('denied', policy === 'deny' ? 'settings' : 'mode')
      return plainly(false)
    }
    // A read-only kind is no reason to allow a call: the agent reports the kind, and a read may be outside the project.
    const isFree = policy === 'allow' || (mode === 'edit' && EDITS.has(call.kind))
    if (isFree) {
      tell('approved', policy === 'allow' ? 'settings' : 'mode')
      return plainly(true)
    }
    if (await allowedByRule(deps.rules, question, placed, turn)) return plainly(true)
    const key = keyOf(call.name, shownArguments(argumentsOf(call)).arguments_text)
    const earlier = isWhole(call) ? decided.get(key) : undefined
    if (earlier !== undefined) {
      // Each answer counts once.
      decided.delete(key)
      tell(earlier ? 'approved' : 'denied', 'an earlier answer')
      return plainly(earlier)
    }
    if (question.arguments.length > MAX_QUESTION_CHARACTERS) return plainly(false)
    call.stage = 'awaiting_approval'
    writer.write(statusFrame(call, call.stage))
    if (asking.has(call.callId)) return null
    asking.add(call.callId)
    const { approved, optionId } = await askPerson(question, placed, turn).finally(() => {
      asking.delete(call.callId)
    })
    return { isAllowed: approved, optionId }
  }

  async function settleQuestions(): Promise<void> {
    for (const { asked, approval, hasBegun } of record.openCalls()) {
      if (!asked || approval === null || hasBegun || asked.notices) continue
      const { tool_call_id: id, tool_name, arguments_text } = asked
      let isApproved = approval === 'approved'
      if (approval === 'requested') {
        const answer = await turn.answerTo(id)
        isApproved = answer.approved
        const { response_id = '', output_index, item_id } = asked
        const placed = {
          callId: id,
          name: tool_name,
          responseId: response_id,
          outputIndex: output_index,
          itemId: item_id,
        }
        const { by, reason } = answer
        const status = isApproved ? 'approved' : 'denied'
        writer.write(approvalFrame(placed, { status, by, ...(reason === null ? {} : { reason }) }))
      }
      decided.set(keyOf(tool_name, arguments_text), isApproved)
    }
  }

  let reading: Promise<unknown> = Promise.resolve()
  function inOrder<T>(read: () => Promise<T>): Promise<T> {
    const next = reading.then(read)
    reading = next.catch(() => {})
    return next
  }

  /** The whole text, or the lines that the agent asks for: it may write the text back. */
  async function readText({ path, line, limit }: ReadTextFileRequest): Promise<string> {
    const { bytes } = await deps.files.read(path).catch((error: unknown) => {
      throw RequestError.internalError(undefined, (error as Error).message)
    })
    const text = bytes.toString()
    if (line == null && limit == null) return text
    const from = Math.max(0, (line ?? 1) - 1)
    const lines = text.split('\n')
    return lines.slice(from, limit == null ? lines.length : from + limit).join('\n')
  }

  async function settled(): Promise<void> {
    while (running.size > 0) await Promise.allSettled(running)
    await terminals.close()
  }

  /** The answer does not end before this has. */
  function tracked<T>(run: Promise<T>): Promise<T> {
    running.add(run)
    const settled = () => void running.delete(run)
    run.then(settled, settled)
    return run
  }

  /** Runs one of our own tools for the agent, under our policies; its card shows what it did. */
  async function runOwn(name: string, args: object) {
    const call = await inTurn(async () => ownCall(name, args))
    const outcome = await deps.runner.runFor(call, turn)
    if (outcome.isFailed) throw RequestError.internalError(undefined, textOf(outcome.output))
    return outcome
  }

  function assertPrompted(sessionId: string, wanted: string): void {
    if (hasEnded) throw RequestError.internalError(undefined, 'the answer has ended')
    if (sessionId !== wanted)
      throw RequestError.invalidParams(undefined, 'this session is not being prompted')
  }

  return {
    settleQuestions,
    saved: frames.saved,
    usage: frames.usage,
    failed: failing.promise,
    async end() {
      hasEnded = true
      // A call that waits for a person does not hold up the end; it can't run after the run has ended (L8).
      await Promise.race([settled(), new Promise((resolve) => setTimeout(resolve, END_MS).unref())])
      await work
      frames.closeItem()
      const [last] = frames.openCalls()
      if (!last || turn.signal.aborted) return
      writer.write(...(await afterCall(last)))
    },
    methods(sessionId, pauseWhile) {
      paused = pauseWhile
      const own = (request: { sessionId: string }) => assertPrompted(request.sessionId, sessionId)
      return {
        update(params) {
          const { sessionId: of, update } = (params ?? {}) as { sessionId?: unknown; update?: unknown }
          // Another session of the same program, for example a child agent's.
          if (of !== sessionId) return
          const handle = () => inTurn(async () => await frames.update(update)).catch(() => {})
          // Paused at once: the agent must not begin its next call before this one's changes are saved.
          return endsCall(update) ? paused(handle) : handle()
        },
        async requestPermission(request) {
          own(request)
          return await requestPermission(request)
        },
        async readTextFile(request) {
          own(request)
          if (policies.read_file === 'deny')
            throw RequestError.internalError(undefined, 'reading is not allowed here')
          // One after the other: many at once would fill our memory.
          return await inOrder(async () => ({ content: await readText(request) }))
        },
        async writeTextFile(request) {
          own(request)
          await tracked(runOwn('write_to_file', { path: request.path, content: request.content }))
          return {}
        },
        async createTerminal(request) {
          own(request)
          return await tracked(terminals.create(request, inTurn))
        },
        terminalOutput: async (request) => terminals.output(request.terminalId),
        waitForTerminalExit: (request) => terminals.waitForExit(request.terminalId),
        async killTerminal(request) {
          terminals.kill(request.terminalId)
        },
        async releaseTerminal(request) {
          terminals.release(request.terminalId)
        },
      }
    },
  }
}

function endsCall(update: unknown): boolean {
  const { status } = (update ?? {}) as { status?: unknown }
  return status === 'completed' || status === 'failed'
}

interface Decision {
  isAllowed: boolean
  /** The agent's option that a person chose. */
  optionId: string | null
}

/** An option whose id is too long to store can't be chosen by a person. */
function offeredOf(options: RequestPermissionRequest['options']): NonNullable<Question['options']> {
  return options
    .filter(({ optionId }) => optionId.length <= MAX_OPTION)
    .slice(0, MAX_OPTIONS)
    .map(({ optionId: id, name, kind }) => ({ id, name: cutText(name, MAX_OPTION), kind }))
}

function questionOf(call: AgentCall): Question {
  const args = argumentsOf(call)
  const { command } = (call.input ?? {}) as { command?: unknown }
  const subject = commandText(command) ?? args
  const shown = JSON.stringify({
    title: call.title,
    ...(isPlain(call.input) ? call.input : { input: call.input }),
  })
  const sha256 = hash('sha256', JSON.stringify([call.callId, call.name, shown]))
  return { toolName: call.name, arguments: shown, subject, confinement: null, sha256 }
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The command as a rule matches it. A shell with its script counts as the script. */
function commandText(command: unknown): string | null {
  if (typeof command === 'string') return command
  if (!Array.isArray(command) || !command.every((word) => typeof word === 'string')) return null
  const [program = '', flag = '', script, ...rest] = command
  const isShell = /(?:^|\/)(?:ba|z|da)?sh$/.test(program) && /^-l?c$/.test(flag)
  return isShell && script !== undefined && rest.length === 0 ? script : command.join(' ')
}

function placedOf({ place, name }: AgentCall): PlacedCall {
  const { response_id: responseId, output_index: outputIndex, item_id: itemId, tool_call_id: callId } = place
  return { callId, name, responseId, outputIndex, itemId }
}

/** False if the frame shows less than the call: two calls could look the same. */
function isWhole(call: AgentCall): boolean {
  return shownArguments(argumentsOf(call)).notices === undefined
}

function keyOf(name: string, argumentsText: string): string {
  return `${name} ${argumentsText}`
}

function relativeTo(root: string, path: string): string {
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path
}

function textOf(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output)
}
