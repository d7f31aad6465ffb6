import { capturedFrames } from '../agent/captured-frames.ts'
import { createSessionPlaces } from '../agent/hosted/session-place.ts'
import type { FunctionCall } from '../agent/provider/mapping.ts'
import { shownOutput } from '../agent/provider/stream-items.ts'
import type { Turn, TurnOutcome } from '../core/agent.ts'
import { closeCalls, closeItems } from '../core/run-record.ts'
import { untilAborted } from '../core/until-aborted.ts'
import { labels } from '../core/work-sessions.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { Exchange } from './exchange.ts'
import type { ObservedDependencies } from './observed-dependencies.ts'
import { createRecording, type Recording, recordExchange } from './record-exchange.ts'
import type { ReadRequest } from './request-items.ts'

/** A request of the agent while it answers one message; null when only outcomes were seen. */
export interface ObservedStep {
  outputs: { callId: string; text: string }[]
  exchange: Exchange | null
  request: ReadRequest
}

/** One message of a person to an agent in its own terminal, from the first request to the last answer. */
export interface ObservedTurn {
  /** Resolves when the files are saved as they are at this step. */
  take(step: ObservedStep): Promise<void>
  /** A side request: it is recorded, but not shown. */
  aside(exchange: Exchange): void
  /** Calls of the last answer whose outcomes are not known yet. */
  openCalls(): string[]
  /** The run's worker has begun: the message is in the ledger. */
  hasBegun(): boolean
  /** True while the model is answering; otherwise resolves with false once the last answer is in the ledger. */
  isAnswering(): Promise<boolean>
  /** No further request comes. */
  end(why: string): void
  /** The run will never begin. */
  abandon(): void
  run(turn: Turn): Promise<TurnOutcome>
  /** Resolves when the run has ended, however it did. */
  ended: Promise<void>
}

/** An agent that sends nothing for this time no longer works on the message. */
const IDLE_MS = 60 * 60_000

export function createObservedTurn(
  deps: Pick<ObservedDependencies, 'responses' | 'clock' | 'states' | 'sessions' | 'keep' | 'log'>,
  { agent, sessionId }: { agent: string; sessionId: string },
): ObservedTurn {
  const places = createSessionPlaces(deps.states)
  const ended = Promise.withResolvers<void>()
  const steps: (ObservedStep & { saved(): void; done(): void })[] = []
  let hasBegun = false
  const besides: Exchange[] = []
  let arrived = Promise.withResolvers<void>()
  let why: string | null = null
  let recording: Recording | null = null
  let calls = new Map<string, FunctionCall>()
  let startedAt = 0
  /** The last request that was taken, until its answer is in the ledger. */
  let last: { exchange: Exchange; done: Promise<void> } | null = null
  const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0, requests: 0 }

  function notify(): void {
    arrived.resolve()
    arrived = Promise.withResolvers()
  }

  /** Null when no further step comes. */
  async function next(signal: AbortSignal): Promise<(typeof steps)[number] | null> {
    for (;;) {
      signal.throwIfAborted()
      const step = steps.shift()
      if (step) return step
      if (why !== null) return null
      const idle = setTimeout(() => end('The agent sent no further request.'), IDLE_MS)
      await untilAborted(arrived.promise, signal).finally(() => clearTimeout(idle))
    }
  }

  function end(reason: string): void {
    why ??= reason
    notify()
  }

  async function watch(turn: Turn): Promise<TurnOutcome> {
    const { writer, signal } = turn
    writer.write(...closeCalls(turn.record), { kind: 'agent.updated', to_agent: agent })
    for (;;) {
      const step = await next(signal)
      if (!step) return await outcome(turn, 'incomplete', why)
      await settle(turn, step.outputs).finally(step.saved)
      if (!step.exchange) return await outcome(turn, 'incomplete', 'Superseded by the next message.')
      if (await answer(turn, step.exchange, step.request).finally(step.done))
        return await outcome(turn, 'completed', null)
    }
  }

  /** Records the outcomes of calls, and what has changed since they began. */
  async function settle(turn: Turn, outputs: ObservedStep['outputs']): Promise<void> {
    const { writer } = turn
    if (calls.size > 0) {
      const [only] = calls.size === 1 ? calls.values() : []
      const title = [...calls.values()].map(({ name }) => name).join(', ')
      writer.write(...(await captured(turn, title, only ?? null)))
    }
    for (const { callId, text } of outputs) {
      const call = calls.get(callId)
      if (!call) continue
      calls.delete(callId)
      const shown = shownOutput(text)
      const isCut = shown.notices?.some(({ type }) => type === 'truncated') ?? false
      const ref = isCut ? { output_ref: await deps.keep(text) } : {}
      writer.write(
        { kind: 'tool.output', ...placeOf(call), tool_type: call.toolType, ...shown, ...ref },
        statusFrame(call, 'completed'),
      )
    }
    // Calls that the agent went on without.
    writer.write(...closeCalls(turn.record))
    calls = new Map()
    await writer.flush()
  }

  async function captured(turn: Turn, title: string, call: FunctionCall | null): Promise<FrameDraft[]> {
    const { tenant, conversationId, writer } = turn
    if (turn.workspaceId === null) return []
    await writer.flush()
    const found = await deps.sessions.capture({ tenant, conversationId, label: labels.afterCall(title) })
    return found ? capturedFrames(found, { startedAt, callFor: () => call && placeOf(call) }) : []
  }

  /** True if the answer ends the turn: it asks for no call. */
  async function answer(turn: Turn, exchange: Exchange, request: ReadRequest): Promise<boolean> {
    const { writer } = turn
    const emit = (frame: FrameDraft) => {
      // After a stop the record is completed, but the transcript has ended.
      if (!turn.signal.aborted) writer.write(frame)
    }
    const recorded = await untilAborted(recordExchange(deps, turn, exchange, request, emit), turn.signal)
    if (!recorded) return false
    const { result, hasCalls, end: ending } = recorded
    if (!result) {
      writer.write(...closeItems(turn.record), ...closeCalls(turn.record))
      // A whole response instead of a stream: it shows no text, but the run goes on if it asks for calls.
      if (ending.status === 'completed') return !hasCalls
      const reason = ending.error?.message ?? 'The agent cancelled the request.'
      writer.write({ kind: 'lifecycle', status: 'in_progress', reason })
      return false
    }
    usage.requests++
    usage.input_tokens += result.usage.input
    usage.output_tokens += result.usage.output
    usage.total_tokens += result.usage.total
    // Use the time the answer began: on a busy machine, the agent may act before it is recorded.
    startedAt = (await exchange.answer)?.beganAt ?? deps.clock.now()
    calls = new Map(result.calls.map((call) => [call.callId, call]))
    writer.write(...result.calls.map((call) => statusFrame(call, 'in_progress')))
    await writer.flush()
    return calls.size === 0 && result.status === 'completed'
  }

  async function outcome(
    turn: Turn,
    status: TurnOutcome['status'],
    reason: string | null,
  ): Promise<TurnOutcome> {
    if (calls.size > 0) turn.writer.write(...(await captured(turn, agent, null)))
    turn.writer.write(...closeCalls(turn.record))
    await recording?.settled()
    await turn.writer.flush()
    void deps.sessions.writeRepository(turn.tenant, turn.conversationId).catch((error: unknown) => {
      deps.log.error({ err: error }, 'a repository could not be written')
    })
    const handle = { agent, sessionId, conversationId: turn.conversationId }
    return { stateId: await places.arrive(turn, handle), status, reason, usage: { ...usage } }
  }

  return {
    take(step) {
      const saved = Promise.withResolvers<void>()
      const done = Promise.withResolvers<void>()
      steps.push({ ...step, saved: saved.resolve, done: done.resolve })
      if (step.exchange) last = { exchange: step.exchange, done: Promise.race([done.promise, ended.promise]) }
      notify()
      return Promise.race([saved.promise, ended.promise])
    },
    aside(exchange) {
      if (recording) void recording.add(exchange)
      else besides.push(exchange)
    },
    hasBegun: () => hasBegun,
    openCalls: () => [...calls.keys()],
    async isAnswering() {
      if (!last) return false
      const open = Symbol('open')
      const complete = last.exchange.answer.then((one) => one?.body.isComplete)
      const now = await Promise.race([complete, new Promise((resolve) => setImmediate(resolve, open))])
      if (now === open) return true
      await last.done
      return false
    },
    end,
    abandon: ended.resolve,
    async run(turn) {
      hasBegun = true
      recording = createRecording(deps, turn)
      for (const exchange of besides.splice(0)) void recording.add(exchange)
      try {
        return await watch(turn)
      } finally {
        ended.resolve()
      }
    },
    ended: ended.promise,
  }
}

function placeOf({ responseId, outputIndex, itemId, callId }: FunctionCall) {
  return { response_id: responseId, output_index: outputIndex, item_id: itemId, tool_call_id: callId }
}

function statusFrame(call: FunctionCall, status: string): FrameDraft<'tool.status'> {
  const { toolType, callId, name } = call
  const tool = { tool_type: toolType, tool_call_id: callId, status, name, file_effect: 'unrecorded' as const }
  return { kind: 'tool.status', ...placeOf(call), tool }
}
