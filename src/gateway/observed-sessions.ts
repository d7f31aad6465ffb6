import { hash } from 'node:crypto'
import type { Agent, Turn, TurnOutcome } from '../core/agent.ts'
import { cutText } from '../core/limits.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, newId, type RunId } from '../protocol/ids.ts'
import type { Exchange } from './exchange.ts'
import type { GatewayAccess } from './gateway.ts'
import type { ObservedDependencies } from './observed-dependencies.ts'
import { createObservedTurn, type ObservedTurn } from './observed-turn.ts'
import { type ReadRequest, readRequest } from './request-items.ts'
import { createSessionMessages, type SessionMessages } from './session-messages.ts'

/**
 * Agents that people run in their own terminals with `waymark run`. Each session of such an agent becomes a conversation: a
 * message that the person typed there is a run, and the agent's requests to its model are the run's steps.
 */
export interface ObservedSessions {
  /** Opens a terminal, or keeps it open: `waymark run` repeats this while its agent lives. */
  keep(terminal: TerminalCommand): { conversations: string[] }
  /** The agent has ended: its open runs end too. */
  end(tenant: string, id: string): Promise<{ conversations: string[] }>
  access(key: string): GatewayAccess | null
  /** Watches the agent answer a message. */
  run: Agent['run']
  close(): Promise<void>
}

export interface TerminalCommand {
  tenant: string
  /** Chosen by the terminal. */
  id: string
  key: string
  /** The program's name. */
  agent: string
  upstreams: Readonly<Record<string, string>>
}

/** A terminal that sends no sign of life for this time has ended. */
const ALIVE_MS = 60_000
/** How long the end of a terminal waits for what is being recorded. */
const END_MS = 3000
const MAX_TERMINALS = 100
const MAX_THREADS = 200
/** Side requests, such as for a title, that wait for the next message. */
const MAX_ASIDE = 8
const MAX_TITLE = 80
/** Agents whose conversations always offer tools: a request without any is for a title or a summary. */
const WITH_TOOLS = /^(codex|claude|opencode)/
const NAMESPACE = 'observed'

interface Terminal extends TerminalCommand {
  threads: Map<string, Thread>
  deadline: NodeJS.Timeout | null
}

/** A session of an agent. */
interface Thread {
  terminal: Terminal
  sessionId: string
  conversationId: ConversationId | null
  messages: SessionMessages
  turn: ObservedTurn | null
  aside: Exchange[]
  hasTools: boolean
  /** Requests are looked at in the order of their arrival. */
  work: Promise<void>
}

export function createObservedSessions(deps: ObservedDependencies): ObservedSessions {
  const { ledger, queue, states, log, clock } = deps
  const terminals = new Map<string, Terminal>()
  const turns = new Map<RunId, { turn: ObservedTurn; thread: Thread }>()
  const nameOf = ({ tenant, id }: { tenant: string; id: string }) => `${tenant} ${id}`

  function keep(command: TerminalCommand): { conversations: string[] } {
    const name = nameOf(command)
    const found = terminals.get(name)
    if (!found && terminals.size >= MAX_TERMINALS) {
      throw new WaymarkError('invalid_request', `At most ${MAX_TERMINALS} agents can be recorded at once.`)
    }
    const terminal: Terminal = found ?? { ...command, threads: new Map(), deadline: null }
    Object.assign(terminal, command)
    terminals.set(name, terminal)
    if (terminal.deadline) clearTimeout(terminal.deadline)
    terminal.deadline = setTimeout(() => void end(command.tenant, command.id), ALIVE_MS)
    terminal.deadline.unref()
    return { conversations: conversationsOf(terminal) }
  }

  async function end(tenant: string, id: string): Promise<{ conversations: string[] }> {
    const terminal = terminals.get(nameOf({ tenant, id }))
    if (!terminal) return { conversations: [] }
    terminals.delete(nameOf(terminal))
    if (terminal.deadline) clearTimeout(terminal.deadline)
    const threads = [...terminal.threads.values()]
    const late = new Promise((resolve) => setTimeout(resolve, END_MS).unref())
    await Promise.race([Promise.all(threads.map((thread) => thread.work)), late])
    const open = threads.flatMap(({ turn }) => turn ?? [])
    for (const turn of open) turn.end('The agent has ended.')
    await Promise.race([Promise.all(open.map((turn) => turn.ended)), late])
    return { conversations: conversationsOf(terminal) }
  }

  function conversationsOf({ threads }: Terminal): string[] {
    return [...threads.values()].flatMap(({ conversationId }) => conversationId ?? [])
  }

  function observe(terminal: Terminal, exchange: Exchange): Promise<void> {
    const thread = threadOf(terminal, exchange.sessionId ?? terminal.id)
    const placing = thread.work.then(() => place(thread, exchange))
    const placed = placing.catch((error: unknown) => {
      log.error({ err: error }, 'a request of an agent could not be recorded')
      return null
    })
    thread.work = placed.then(() => {})
    return placed.then(async (taken) => await taken?.saved)
  }

  function threadOf(terminal: Terminal, sessionId: string): Thread {
    let thread = terminal.threads.get(sessionId)
    if (thread) return thread
    if (terminal.threads.size >= MAX_THREADS) throw new Error('the agent has too many sessions')
    thread = {
      terminal,
      sessionId,
      conversationId: null,
      messages: createSessionMessages(),
      turn: null,
      aside: [],
      hasTools: WITH_TOOLS.test(terminal.agent),
      work: Promise.resolve(),
    }
    terminal.threads.set(sessionId, thread)
    return thread
  }

  /** Decides whether a request belongs to the open run, starts a new run, or is a side request, such as for a title. */
  async function place(thread: Thread, exchange: Exchange): Promise<{ saved: Promise<void> } | null> {
    const body = await exchange.request
    if (body === null) return null
    const request = readRequest(exchange.protocol, body)
    thread.hasTools ||= request.tools.count > 0
    await forgetLost(thread)
    if (await isAside(thread, request)) {
      if (thread.turn) thread.turn.aside(exchange)
      else thread.aside = [...thread.aside, exchange].slice(-MAX_ASIDE)
      return null
    }
    const { message, outputs } = thread.messages.take(request)
    if (message !== null && thread.turn) {
      void thread.turn.take({ outputs, exchange: null, request })
      thread.turn = null
    }
    thread.turn ??= await begin(thread, message ?? 'Continued')
    const saved = thread.turn.take({ outputs, exchange, request })
    for (const one of thread.aside.splice(0)) thread.turn.aside(one)
    return { saved }
  }

  /** A run may leave the queue without having begun: its checkpoint failed, or a person removed it. */
  async function forgetLost(thread: Thread): Promise<void> {
    const { turn } = thread
    if (!turn || turn.hasBegun()) return
    const runId = [...turns].find(([, one]) => one.turn === turn)?.[0]
    if (runId !== undefined && (await queue.signals(runId)).isQueued) return
    turn.abandon()
    if (runId !== undefined) turns.delete(runId)
    thread.turn = null
  }

  /** Title and summary requests offer no tools; helper agents send requests while a call of the main agent is open. */
  async function isAside({ turn, hasTools }: Thread, { tools, items }: ReadRequest): Promise<boolean> {
    if (hasTools && tools.count === 0) return true
    if (!turn) return false
    if (await turn.isAnswering()) return true
    const open = turn.openCalls()
    return open.length > 0 && !items.some((item) => item.type === 'output' && open.includes(item.callId))
  }

  async function begin(thread: Thread, content: string): Promise<ObservedTurn> {
    const { terminal, sessionId } = thread
    const { tenant, agent } = terminal
    const known = thread.conversationId
    // It may have been deleted meanwhile.
    const isHere = known !== null && (await ledger.conversation(tenant, known).catch(() => null)) !== null
    const conversationId = isHere ? known : await conversationFor(thread, content)
    thread.conversationId = conversationId
    const now = clock.now()
    const runId = newId('run', now)
    const turn = createObservedTurn(deps, { agent, sessionId })
    turns.set(runId, { turn, thread })
    void turn.ended.then(() => {
      turns.delete(runId)
      if (thread.turn === turn) thread.turn = null
    })
    try {
      await queue.enqueue({
        tenant,
        conversationId,
        runId,
        messageId: newId('msg', now),
        content,
        extras: { observed: agent },
        mayChangeFiles: true,
        reserve: { worker: deps.worker, leaseMs: deps.leaseMs },
      })
    } catch (error) {
      turns.delete(runId)
      throw error
    }
    return turn
  }

  /** The conversation of the agent's session: the one that it had before, or a new one. */
  async function conversationFor({ terminal, sessionId }: Thread, content: string): Promise<ConversationId> {
    const { tenant } = terminal
    const id = `${NAMESPACE}_${hash('sha256', JSON.stringify([tenant, sessionId]))}`
    const found = await states.get({ threadId: id, namespace: NAMESPACE, id })
    if (found) {
      const { conversationId } = JSON.parse(Buffer.from(found.state.bytes).toString()) as {
        conversationId: ConversationId
      }
      const known = await ledger.conversation(tenant, conversationId).catch(() => null)
      if (known) return conversationId
      // The old note would hide the note of the next conversation.
      await states.deleteThread(conversationId)
    }
    const now = clock.now()
    const conversationId = newId('conv', now)
    await ledger.create({
      tenant,
      conversationId,
      segmentId: newId('seg', now),
      workspaceId: deps.workspaceId,
      settings: {},
      frame: {
        kind: 'conversation.created',
        title: cutText(content.split('\n', 1)[0]?.trim() || terminal.agent, MAX_TITLE),
        workspace_id: deps.workspaceId,
      },
    })
    const json = (value: unknown) => ({ type: 'json', bytes: Buffer.from(JSON.stringify(value)) })
    // A note of the conversation: it is collected with it.
    const rest = { parentId: null, metadata: json({}), values: {}, unchanged: [] }
    const state = {
      threadId: conversationId,
      namespace: NAMESPACE,
      id,
      state: json({ conversationId }),
      ...rest,
    }
    await states.put(state, null)
    return conversationId
  }

  async function run(turn: Turn): Promise<TurnOutcome> {
    const found = turns.get(turn.runId)
    const watched =
      found?.turn ?? createObservedTurn(deps, { agent: turn.message.extras.observed ?? '', sessionId: '' })
    if (!found) watched.end('The server stopped while recording the agent.')
    return await watched.run(turn)
  }

  return {
    keep,
    end,
    run,
    access(key) {
      const terminal = [...terminals.values()].find((one) => one.key === key)
      return terminal
        ? { upstreams: terminal.upstreams, observe: (exchange) => observe(terminal, exchange) }
        : null
    },
    async close() {
      await Promise.all([...terminals.values()].map(({ tenant, id }) => end(tenant, id)))
    },
  }
}
