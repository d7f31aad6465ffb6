import type { ContentBlock, PromptResponse } from '@agentclientprotocol/sdk'
import { methods } from '@agentclientprotocol/sdk'
import { type Agent, Cancelled, ModelFailure, type Turn, type TurnOutcome } from '../../core/agent.ts'
import type { AgentStates } from '../../core/agent-states.ts'
import type { Clock } from '../../core/clock.ts'
import type { Ledger } from '../../core/ledger.ts'
import type { Log } from '../../core/log.ts'
import type { Rules } from '../../core/questions.ts'
import type { Attachment } from '../../core/queue.ts'
import { closeCalls } from '../../core/run-record.ts'
import type { WorkSessions } from '../../core/work-sessions.ts'
import type { Conversation } from '../../protocol/api/conversations.ts'
import { framesAfter } from '../line-frames.ts'
import { createToolRunner } from '../tool-runner.ts'
import type { ConfinedFolder } from '../tools/confined-folder.ts'
import type { ToolResults } from '../tools/conversation.ts'
import type { Tool, ToolPolicy } from '../tools/tool.ts'
import type { AgentCommand, AgentProgram } from './agent-program.ts'
import { createPrograms, type Programs, type ProgramTraffic, type SessionModes } from './programs.ts'
import { seedOf } from './seed.ts'
import { createSessionPlaces, type SessionHandle } from './session-place.ts'
import { createTurnClient, type TurnClient } from './turn-client.ts'

export interface HostedAgentDependencies {
  ledger: Pick<Ledger, 'page' | 'conversation'>
  states: AgentStates
  sessions: Pick<WorkSessions, 'capture' | 'writeRepository'>
  /** How to start the agent with this name; throws a ModelFailure that says how to install it. */
  command(name: string): AgentCommand
  /** The folder of a workspace's files. */
  root(workspaceId: string | null): string
  /** The tools that stand for the agent's file and terminal methods. */
  tools(workspaceId: string | null): Promise<readonly Tool[]>
  files(workspaceId: string | null): Promise<Pick<ConfinedFolder, 'read'>>
  policies: Readonly<Record<string, ToolPolicy>>
  rules: Pick<Rules, 'find'>
  results: ToolResults
  attachments: { read(sha256: string): Promise<string> }
  /** Records the agents' model requests. */
  traffic: ProgramTraffic & {
    during(turn: Turn, saved: TurnClient['saved']): () => Promise<void>
  }
  clock: Clock
  log: Pick<Log, 'error'>
}

export interface HostedAgent extends Pick<Agent, 'run'> {
  close(): Promise<void>
}

/** How long an agent may take to end its answer after it was asked to stop; then it is killed. */
const STOP_MS = 2000
/** Names that agents give to a mode in which they change nothing. */
const READ_ONLY_MODES = ['read-only', 'plan']
const MAX_SESSION_ID = 500
const nothingUsed = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

/** Runs agents that are programs of their own and speak the Agent Client Protocol. */
export function createHostedAgent(deps: HostedAgentDependencies): HostedAgent {
  const { ledger, states, clock } = deps
  const places = createSessionPlaces(states)
  const programs: Programs = createPrograms({ log: deps.log, traffic: deps.traffic })

  async function run(turn: Turn): Promise<TurnOutcome> {
    const { tenant, conversationId, signal, writer, workspaceId } = turn
    signal.throwIfAborted()
    const conversation = await ledger.conversation(tenant, conversationId)
    const name = conversation.agent
    if (name === null) throw new Error('the conversation has no hosted agent')
    if (!turn.mayChangeFiles) {
      const text = `The agent ${name} may change files, but the sender of this message lacks the scope workspace:write.`
      throw new ModelFailure('forbidden', text, { isRetryable: false })
    }
    const client = await clientOf(turn, conversation, name)
    await client.settleQuestions()
    // Calls of a process that is gone: whether they took effect is unknown.
    writer.write(...closeCalls(turn.record))
    const cwd = deps.root(workspaceId)
    const command = deps.command(name)
    const recorded = deps.traffic.during(turn, client.saved)
    let program: AgentProgram | null = null
    try {
      program = await programs.get({ conversationId, cwd, command, signal })
      const used = program
      const session = await opened(used, async () => {
        const found = await sessionFor(turn, command, used, cwd)
        await setMode(turn, used, found.handle, conversation.mode, command.mode)
        return found
      })
      return await prompt(turn, used, session, client)
    } finally {
      await recorded()
      if (program) programs.rest(conversationId, program)
    }
  }

  /** A program that hangs or answers nonsense while its session is opened is not used again. */
  async function opened(program: AgentProgram, work: () => Promise<Session>): Promise<Session> {
    try {
      return await work()
    } catch (error) {
      program.kill()
      throw error
    }
  }

  async function clientOf(turn: Turn, conversation: Conversation, name: string): Promise<TurnClient> {
    const tools = await deps.tools(turn.workspaceId)
    const files = await deps.files(turn.workspaceId)
    const { policies, rules, results, sessions, log } = deps
    const { mode, is_titled } = conversation
    const runner = createToolRunner({ tools, policies, rules, results, mode, log })
    return createTurnClient({
      turn,
      agent: name,
      mode,
      isUntitled: !is_titled,
      root: deps.root(turn.workspaceId),
      runner,
      policies,
      rules,
      sessions,
      keep: results.keep,
      files,
      now: clock.now,
      log,
    })
  }

  /** The session to prompt, and what it must be given with the message. */
  interface Session {
    handle: SessionHandle
    seed: string | null
    isInterrupted: boolean
  }

  async function sessionFor(
    turn: Turn,
    { name, forksElsewhere }: AgentCommand,
    program: AgentProgram,
    cwd: string,
  ): Promise<Session> {
    const { tenant, conversationId, runId, record, signal, writer } = turn
    const past = await states.past({ tenant, conversationId, runId })
    const isInterrupted = record.hasOutput()
    const handle = await places.handle(past)
    const since = past.state ? await framesAfter(ledger, turn, past.state.cursor) : []
    const isCurrent = !since.some((frame) => frame.kind === 'message.user' && frame.stream_id !== runId)
    const place = { conversationId, agent: name, cwd }
    if (handle && past.state && handle.agent === name && isCurrent && !isInterrupted) {
      const isOwn = handle.conversationId === conversationId
      const isThere = await places.isAt(handle, past.state.id)
      // Some agents fork a session, but go on working in its old folder.
      const isSameFolder = (handle.cwd ?? cwd) === cwd || forksElsewhere
      const found = isThere && isSameFolder ? await continued(handle, isOwn) : null
      if (found !== null) return { handle: { ...place, sessionId: found }, seed: null, isInterrupted }
    }
    const made = await program.request<{ sessionId?: unknown } | null>(
      methods.agent.session.new,
      { cwd, mcpServers: [] },
      signal,
    )
    const sessionId = made?.sessionId
    if (typeof sessionId !== 'string' || sessionId.length > MAX_SESSION_ID) {
      throw new ModelFailure('agent_protocol', `The agent ${name} opened no session.`, { isRetryable: true })
    }
    programs.opened(conversationId, sessionId, modesIn(made))
    const frames = await framesAfter(ledger, turn, null)
    const told = isInterrupted ? frames : frames.filter((frame) => frame.stream_id !== runId)
    const seed = seedOf(told, isInterrupted)
    if (seed !== null) {
      const reason = `${name} starts a new session here and is given the transcript up to this point.`
      writer.write({ kind: 'lifecycle', status: 'in_progress', reason })
    } else writer.write({ kind: 'agent.updated', to_agent: name })
    return { handle: { ...place, sessionId }, seed, isInterrupted }

    /** Continues the session here, or a fork of it; null when the agent can't. */
    async function continued({ sessionId: id }: SessionHandle, isOwn: boolean): Promise<string | null> {
      if (isOwn && programs.hasOpen(conversationId, id)) return id
      const where = { sessionId: id, cwd, mcpServers: [] }
      const { loadSession, sessionCapabilities } = program.about.agentCapabilities ?? {}
      const can = (what: string) =>
        (sessionCapabilities as Record<string, unknown> | undefined)?.[what] != null
      const method = !isOwn
        ? can('fork') && 'session/fork'
        : can('resume')
          ? methods.agent.session.resume
          : loadSession && methods.agent.session.load
      if (!method) return null
      try {
        const made = await program.request<{ sessionId?: string } | null>(method, where, signal)
        const next = isOwn ? id : made?.sessionId
        if (typeof next !== 'string') return null
        programs.opened(conversationId, next, modesIn(made))
        return next
      } catch (error) {
        if (!(error instanceof ModelFailure) || program.hasEnded()) throw error
        // The agent no longer has the session: it gets the transcript instead.
        deps.log.error({ err: error, agent: name }, 'an agent could not continue its session')
        return null
      }
    }
  }

  /** Selects the agent's session mode: in a read-only conversation, its read-only mode if it has one. */
  async function setMode(
    { conversationId, signal }: Turn,
    program: AgentProgram,
    { sessionId }: SessionHandle,
    mode: Conversation['mode'],
    configured: string | null,
  ): Promise<void> {
    const modes = programs.modes(conversationId, sessionId)
    if (!modes) return
    const readOnly = READ_ONLY_MODES.find((id) => modes.available.includes(id))
    const wanted = mode === 'read_only' && readOnly !== undefined ? readOnly : (configured ?? modes.initial)
    if (wanted === modes.current) return
    await program.request(methods.agent.session.setMode, { sessionId, modeId: wanted }, signal)
    modes.current = wanted
  }

  async function prompt(
    turn: Turn,
    program: AgentProgram,
    session: Session,
    client: TurnClient,
  ): Promise<TurnOutcome> {
    const { signal, writer } = turn
    const { handle } = session
    const { sessionId } = handle
    await places.leave(turn, handle)
    await turn.confirmHold()
    const release = program.serve(client.methods(sessionId, program.paused))
    const content = await promptOf(turn, session, program)
    const answering = program.request<PromptResponse & { usage?: unknown }>(methods.agent.session.prompt, {
      sessionId,
      prompt: content,
    })
    answering.catch(() => {})
    try {
      const ended = await Promise.race([answering, client.failed, aborted(signal)])
      await client.end()
      // A call that the agent never ended has no known outcome.
      writer.write(...closeCalls(turn.record))
      await writer.flush()
      const { status, reason } = statusOf(ended?.stopReason)
      const stateId = await places.arrive(turn, handle)
      return { stateId, status, reason, usage: usageOf(ended?.usage, client.usage()) }
    } catch (error) {
      if (!signal.aborted) {
        // The session is somewhere inside the answer: it can't be continued.
        if (!program.hasEnded()) program.kill()
        await client.end().catch(() => {})
        throw error
      }
      await stop(turn, program, handle, answering, client)
      throw signal.reason
    } finally {
      release()
    }

    function aborted(until: AbortSignal): Promise<never> {
      return new Promise((_, reject) => {
        if (until.aborted) reject(until.reason)
        until.addEventListener('abort', () => reject(until.reason), { once: true })
      })
    }
  }

  /** Asks the agent to stop. If it does, its session knows where it was stopped and can be continued. */
  async function stop(
    turn: Turn,
    program: AgentProgram,
    handle: SessionHandle,
    answering: Promise<unknown>,
    client: TurnClient,
  ): Promise<void> {
    program.notify(methods.agent.session.cancel, { sessionId: handle.sessionId })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), STOP_MS)
    })
    const how = await Promise.race([
      answering.then(
        () => 'stopped' as const,
        () => 'late' as const,
      ),
      late,
    ])
    clearTimeout(timer)
    if (how === 'late') return program.kill()
    if (!(turn.signal.reason instanceof Cancelled)) return
    await client.end().catch(() => {})
    const checkpoint_id = await places.arrive(turn, handle)
    turn.writer.write({ kind: 'agent.checkpoint', checkpoint_id, message_id: turn.message.messageId })
  }

  async function promptOf(turn: Turn, session: Session, program: AgentProgram): Promise<ContentBlock[]> {
    const { content, extras } = turn.message
    const seed: ContentBlock[] = session.seed === null ? [] : [{ type: 'text', text: session.seed }]
    if (session.isInterrupted) return [...seed, { type: 'text', text: 'Continue.' }]
    const files = (extras.activeFiles ?? []).map(
      ({ path, content: unsaved }): ContentBlock =>
        unsaved === null
          ? { type: 'resource_link', name: path, uri: `file://${deps.root(turn.workspaceId)}/${path}` }
          : { type: 'text', text: `<file path=${JSON.stringify(path)} unsaved="true">\n${unsaved}\n</file>` },
    )
    const attached: ContentBlock[] = []
    for (const one of extras.attachments ?? [])
      attached.push(attachmentBlock(one, await deps.attachments.read(one.sha256)))
    const takesImages = program.about.agentCapabilities?.promptCapabilities?.image === true
    const shown = attached.map(
      (block): ContentBlock =>
        block.type === 'image' && !takesImages
          ? { type: 'text', text: '[an image, which this agent does not support]' }
          : block,
    )
    return [...seed, ...files, ...shown, { type: 'text', text: content }]
  }

  return { run, close: () => programs.close() }
}

function modesIn(answer: unknown): SessionModes | null {
  const { modes } = (answer ?? {}) as { modes?: { currentModeId?: unknown; availableModes?: unknown } | null }
  if (typeof modes?.currentModeId !== 'string' || !Array.isArray(modes.availableModes)) return null
  const available = modes.availableModes.flatMap((one: { id?: unknown } | null) => {
    const id = one?.id
    return typeof id === 'string' ? id : []
  })
  return { available, initial: modes.currentModeId, current: modes.currentModeId }
}

function attachmentBlock({ name, media_type }: Attachment, text: string): ContentBlock {
  if (media_type === undefined)
    return { type: 'text', text: `<attachment name=${JSON.stringify(name)}>\n${text}\n</attachment>` }
  return { type: 'image', mimeType: media_type, data: text.slice(text.indexOf(',') + 1) }
}

const statuses: Record<string, Pick<TurnOutcome, 'status' | 'reason'>> = {
  end_turn: { status: 'completed', reason: null },
  max_tokens: { status: 'incomplete', reason: 'The agent reached its token limit.' },
  max_turn_requests: { status: 'incomplete', reason: 'The agent reached its limit of model calls.' },
  refusal: { status: 'incomplete', reason: 'The agent refused to answer.' },
  cancelled: { status: 'incomplete', reason: 'The agent stopped its answer.' },
}

function statusOf(stopReason: unknown): Pick<TurnOutcome, 'status' | 'reason'> {
  if (typeof stopReason !== 'string')
    return { status: 'incomplete', reason: 'The agent stopped without a reason.' }
  return Object.hasOwn(statuses, stopReason)
    ? (statuses[stopReason] as Pick<TurnOutcome, 'status' | 'reason'>)
    : { status: 'incomplete', reason: `The agent stopped: ${stopReason.slice(0, 100)}.` }
}

/** Agents may report what an answer took; otherwise how full the context is. */
function usageOf(reported: unknown, context: { used: number; size: number } | null): TurnOutcome['usage'] {
  const given = (typeof reported === 'object' && reported !== null ? reported : {}) as Record<string, unknown>
  const count = (key: string) => {
    const value = given[key]
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0
  }
  const [input_tokens, output_tokens] = [count('inputTokens'), count('outputTokens')]
  const total_tokens = count('totalTokens') || input_tokens + output_tokens
  const cached = count('cachedReadTokens')
  return {
    ...nothingUsed,
    input_tokens,
    output_tokens,
    total_tokens,
    ...(cached > 0 ? { cached_input_tokens: cached } : {}),
    ...(context ? { context_tokens: context.used, context_size: context.size } : {}),
  }
}
