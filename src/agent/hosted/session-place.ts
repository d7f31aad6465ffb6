import type { AgentStates, Fence, RunPast } from '../../core/agent-states.ts'
import { type ConversationId, newId, type RunId } from '../../protocol/ids.ts'

/**
 * An agent's session remembers a conversation up to one place of its line, as a response chain does for a model. Each answer
 * leaves an agent state that names the session; a note of the conversation says at which state the session is now. The session
 * can be continued only from there: anywhere else it knows too much or too little.
 */
export interface SessionHandle {
  agent: string
  sessionId: string
  /** The conversation that the session belongs to. */
  conversationId: string
  /** The folder that it works in. Earlier versions did not note it. */
  cwd?: string
}

/** Marks the agent states of hosted agents. */
const PREFIX = 'hosted_'
const NAMESPACE = 'hosted'
const HEAD = 'head'

export function isHostedState(stateId: string): boolean {
  return stateId.startsWith(PREFIX)
}

export interface SessionPlaces {
  /** The session that left this state; null when a model wrote it. */
  handle(past: RunPast): Promise<SessionHandle | null>
  /** True if the session has not been used since it left this state. */
  isAt(handle: SessionHandle, stateId: string): Promise<boolean>
  /** Notes that the session is about to move: until the answer is stored, no state is its place. */
  leave(turn: Place, handle: SessionHandle): Promise<void>
  /** Stores the state that the answer leaves, and returns its id. */
  arrive(turn: Place, handle: SessionHandle): Promise<string>
}

interface Place {
  conversationId: ConversationId
  runId: RunId
  hold: { epoch: number }
}

export function createSessionPlaces(states: AgentStates): SessionPlaces {
  async function put(threadId: string, id: string, value: unknown, fence: Fence): Promise<void> {
    const empty = { type: 'json', bytes: Buffer.from('{}') }
    const state = { type: 'json', bytes: Buffer.from(JSON.stringify(value)) }
    const rest = { parentId: null, metadata: empty, values: {}, unchanged: [] }
    await states.put({ threadId, namespace: NAMESPACE, id, state, ...rest }, fence)
  }

  async function read<T>(threadId: string, id: string): Promise<T | null> {
    const found = await states.get({ threadId, namespace: NAMESPACE, id })
    return found ? (JSON.parse(Buffer.from(found.state.bytes).toString()) as T) : null
  }

  const fenceOf = ({ conversationId, runId, hold }: Place) => ({ conversationId, runId, epoch: hold.epoch })

  return {
    async handle({ state }) {
      return state && isHostedState(state.id) ? await read<SessionHandle>(state.id, state.id) : null
    },
    async isAt({ conversationId, sessionId }, stateId) {
      const head = await read<{ sessionId: string; stateId: string | null }>(
        conversationId,
        headOf(conversationId),
      )
      return head?.sessionId === sessionId && head.stateId === stateId
    },
    async leave(turn, { sessionId }) {
      const { conversationId } = turn
      await put(conversationId, headOf(conversationId), { sessionId, stateId: null }, fenceOf(turn))
    },
    async arrive(turn, handle) {
      const { conversationId, runId } = turn
      const stateId = `${PREFIX}${newId('run').slice('run_'.length)}`
      await put(runId, stateId, handle, fenceOf(turn))
      await put(
        conversationId,
        headOf(conversationId),
        { sessionId: handle.sessionId, stateId },
        fenceOf(turn),
      )
      return stateId
    },
  }
}

/** State ids are unique across threads, because a thread inherits the states that it lacks. */
function headOf(conversationId: string): string {
  return `${HEAD}_${conversationId}`
}
