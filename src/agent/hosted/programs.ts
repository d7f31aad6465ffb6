import type { Log } from '../../core/log.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import { type AgentCommand, type AgentProgram, startAgentProgram } from './agent-program.ts'

/** An agent that nothing uses is closed after this time. */
const IDLE_MS = 10 * 60_000
/** More agents than this are closed when they rest, the longest resting one first. */
const MAX_RESTING = 4

/** The running agents, at most one for each conversation. */
export interface Programs {
  /** The conversation's program; starts one if there is none, or if the conversation now has another agent. */
  get(wanted: {
    conversationId: ConversationId
    cwd: string
    command: AgentCommand
    signal: AbortSignal
  }): Promise<AgentProgram>
  /** Notes that the program has this session open. */
  opened(conversationId: ConversationId, sessionId: string, modes: SessionModes | null): void
  hasOpen(conversationId: ConversationId, sessionId: string): boolean
  /** The modes of an open session; null when the agent has none. */
  modes(conversationId: ConversationId, sessionId: string): SessionModes | null
  /** The answer has ended; the program waits for the next message. */
  rest(conversationId: ConversationId, program: AgentProgram): void
  close(): Promise<void>
}

export interface SessionModes {
  available: readonly string[]
  /** The one that the session began with. */
  initial: string
  current: string
}

interface Running {
  key: string
  program: AgentProgram
  sessions: Map<string, SessionModes | null>
  idle: NodeJS.Timeout | null
}

/** Gives the programs of hosted agents keys for the gateway. */
export interface ProgramTraffic {
  open(
    conversationId: ConversationId,
    upstreams: Readonly<Record<string, string>>,
  ): { key: string; close(): void }
}

export function createPrograms({
  log,
  traffic,
}: {
  log: Pick<Log, 'error'>
  traffic: ProgramTraffic
}): Programs {
  const running = new Map<ConversationId, Running>()

  function drop(conversationId: ConversationId, one: Running): Promise<void> {
    if (one.idle) clearTimeout(one.idle)
    if (running.get(conversationId) === one) running.delete(conversationId)
    return one.program.close().catch((error: unknown) => {
      log.error({ err: error }, 'an agent could not be closed')
    })
  }

  async function start(
    conversationId: ConversationId,
    cwd: string,
    command: AgentCommand,
    signal: AbortSignal,
  ): Promise<AgentProgram> {
    if (!command.routing) return await startAgentProgram(command, cwd, signal)
    const { key, close } = traffic.open(conversationId, command.routing.upstreams)
    const environment = { ...command.environment, ...command.routing.environment(key) }
    try {
      const program = await startAgentProgram({ ...command, environment }, cwd, signal)
      void program.ended.then(close)
      return program
    } catch (error) {
      close()
      throw error
    }
  }

  return {
    async get({ conversationId, cwd, command, signal }) {
      const key = JSON.stringify([command.name, command.argv, cwd])
      const found = running.get(conversationId)
      if (found && found.key === key && !found.program.hasEnded()) {
        if (found.idle) clearTimeout(found.idle)
        found.idle = null
        return found.program
      }
      if (found) await drop(conversationId, found)
      const program = await start(conversationId, cwd, command, signal)
      running.set(conversationId, { key, program, sessions: new Map(), idle: null })
      return program
    },
    opened: (conversationId, sessionId, modes) =>
      void running.get(conversationId)?.sessions.set(sessionId, modes),
    modes: (conversationId, sessionId) => running.get(conversationId)?.sessions.get(sessionId) ?? null,
    hasOpen: (conversationId, sessionId) => running.get(conversationId)?.sessions.has(sessionId) ?? false,
    rest(conversationId, program) {
      const one = running.get(conversationId)
      // A later turn may have started another program, or be using this one.
      if (!one || one.program !== program) return
      if (one.idle) clearTimeout(one.idle)
      if (one.program.hasEnded()) return void drop(conversationId, one)
      one.idle = setTimeout(() => void drop(conversationId, one), IDLE_MS)
      one.idle.unref()
      // Map order is the order of use: move it to the end.
      running.delete(conversationId)
      running.set(conversationId, one)
      const resting = [...running].filter(([, other]) => other.idle !== null)
      for (const [id, other] of resting.slice(0, -MAX_RESTING)) void drop(id, other)
    },
    async close() {
      await Promise.all([...running].map(([id, one]) => drop(id, one)))
    },
  }
}
