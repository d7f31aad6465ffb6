import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import type { InitializeResponse } from '@agentclientprotocol/sdk'
import {
  type AnyMessage,
  type ClientConnection,
  client,
  methods,
  PROTOCOL_VERSION,
} from '@agentclientprotocol/sdk'
import { ModelFailure } from '../../core/agent.ts'
import { parseBoundedJson } from '../../core/bounded-json.ts'
import { cutText } from '../../core/limits.ts'
import { untilAborted } from '../../core/until-aborted.ts'
import { VERSION } from '../../protocol/version.ts'
import { signalGroup, startProgram } from '../../sandbox/start.ts'
import type { ClientMethods } from './client-methods.ts'

/** A hosted agent's program is not trusted: these limits hold for each message and each prompt. */
const MAX_LINE_BYTES = 16 * 1024 * 1024
const MAX_PROMPT_BYTES = 256 * 1024 * 1024
const MAX_PROMPT_MESSAGES = 500_000
const MAX_UNREAD_BYTES = 64 * 1024 * 1024
const MAX_ERROR_TEXT = 4000
const MAX_REQUESTS = 32
/** How long lines may be handled before other work gets its turn. */
const SLICE_MS = 10
/** Every request but a prompt must be answered within this time. */
const ANSWER_MS = 60_000
const GRACE_MS = 1000

/**
 * A watchdog in a group of its own waits until the server has ended, and then kills the agent's group: an agent that ignores
 * the end of its input would otherwise go on working without a record.
 */
// Debian's shell takes no `--` here.
const WATCHDOG = 'read -r _; kill -KILL "-$1"'

export interface AgentCommand {
  /** The agent's name in the settings. */
  name: string
  argv: readonly string[]
  environment: Readonly<Record<string, string>>
  /** True if a fork of its session works in the folder that it is given. */
  forksElsewhere: boolean
  /** How its model traffic is recorded; null when it isn't. */
  routing: {
    upstreams: Readonly<Record<string, string>>
    /** The variables that send its traffic to the gateway with this key. */
    environment(key: string): Record<string, string>
  } | null
  /** The session mode to select, by the agent's own id for it; null for the agent's default. */
  mode: string | null
}

/** The running program of a hosted agent, which speaks ACP on its standard streams. */
export interface AgentProgram {
  /** What the agent says that it can do. */
  about: InitializeResponse
  /** Sends a request; rejects with a ModelFailure when the agent answers with an error or ends. */
  request<T>(method: string, params: unknown, signal?: AbortSignal): Promise<T>
  notify(method: string, params: unknown): void
  /**
   * Sends the program's updates and requests to this turn; without a turn, updates are dropped and requests refused. The
   * returned function detaches the turn, unless another has replaced it.
   */
  serve(turn: ClientMethods): () => void
  hasEnded(): boolean
  /** Holds up all its processes while the work goes on, so that they change no files meanwhile. */
  paused<T>(work: () => Promise<T>): Promise<T>
  /** Resolves when the program has ended. */
  ended: Promise<void>
  kill(): void
  /** Closes its input, and kills it if it does not end by itself. */
  close(): Promise<void>
}

/** Starts the agent in a folder and negotiates the protocol. */
export async function startAgentProgram(
  { name, argv, environment }: AgentCommand,
  cwd: string,
  signal: AbortSignal,
): Promise<AgentProgram> {
  // The agent is the person's own program: it needs their login, their files and the network.
  const child = startProgram({ argv, cwd, environment, confined: null })
  const watchdog = startWatchdog(child, cwd)
  let errorText = ''
  let turn: ClientMethods | null = null
  let why: string | null = null
  let pauses = 0
  const ended = Promise.withResolvers<void>()

  function end(reason: string): void {
    if (why !== null) return
    why = reason
    connection.close(failure())
    signalGroup(child, 'SIGKILL')
    // A process that has left the group may still hold the pipes.
    for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.destroy()
    lines.clear()
    if (watchdog) signalGroup(watchdog, 'SIGKILL')
    ended.resolve()
  }

  function failure(): ModelFailure {
    const said = errorText.trim() === '' ? '' : ` It printed: ${lastLines(errorText)}`
    return new ModelFailure('agent_ended', `The agent ${name} ${why ?? 'has ended'}.${said}`, {
      isRetryable: true,
    })
  }

  child.once('error', (error) => end(`could not be started: ${error.message}`))
  child.once('exit', (code, killedBy) =>
    end(killedBy ? `was killed by ${killedBy}` : `has ended with exit code ${code}`),
  )
  child.stdin.on('error', () => {})
  child.stderr.on('data', (bytes: Buffer) => {
    errorText = (errorText + bytes.toString()).slice(-MAX_ERROR_TEXT)
  })
  const lines = createLineReader(child, {
    update: (params) => turn?.update(params),
    refuse: end,
  })
  const app = client({ name: 'waymark' })
  const served = () => {
    if (!turn) throw new Error('no message is being answered')
    return turn
  }
  app.onRequest(methods.client.session.requestPermission, ({ params }) => served().requestPermission(params))
  app.onRequest(methods.client.fs.readTextFile, ({ params }) => served().readTextFile(params))
  app.onRequest(methods.client.fs.writeTextFile, ({ params }) => served().writeTextFile(params))
  app.onRequest(methods.client.terminal.create, ({ params }) => served().createTerminal(params))
  app.onRequest(methods.client.terminal.output, ({ params }) => served().terminalOutput(params))
  app.onRequest(methods.client.terminal.waitForExit, ({ params }) => served().waitForTerminalExit(params))
  app.onRequest(methods.client.terminal.kill, ({ params }) => served().killTerminal(params))
  app.onRequest(methods.client.terminal.release, ({ params }) => served().releaseTerminal(params))
  // Agents send notifications of their own, with names that begin with an underscore.
  app.onNotification('*', () => {})
  const connection: ClientConnection = app.connect(lines.stream)

  async function request<T>(method: string, params: unknown, until?: AbortSignal): Promise<T> {
    if (why !== null) throw failure()
    lines.reset()
    const late = new ModelFailure('timeout', `The agent ${name} did not answer ${method} within a minute.`, {
      isRetryable: true,
    })
    const limit = new AbortController()
    const timer = until && setTimeout(() => limit.abort(late), ANSWER_MS)
    const asked = connection.agent.request<T>(method, params).catch((error: unknown) => {
      if (why !== null) throw failure()
      throw asFailure(name, method, error)
    })
    try {
      return until ? await untilAborted(asked, AbortSignal.any([until, limit.signal])) : await asked
    } finally {
      clearTimeout(timer)
    }
  }

  const program: Omit<AgentProgram, 'about'> = {
    request,
    notify(method, params) {
      if (why === null) void connection.agent.notify(method, params).catch(() => {})
    },
    serve(next) {
      turn = next
      return () => {
        if (turn === next) turn = null
      }
    },
    hasEnded: () => why !== null,
    async paused(work) {
      if (why !== null) return await work()
      pauses++
      signalGroup(child, 'SIGSTOP')
      try {
        return await work()
      } finally {
        if (--pauses === 0) signalGroup(child, 'SIGCONT')
      }
    },
    ended: ended.promise,
    kill: () => end('was stopped'),
    async close() {
      if (why !== null) return
      child.stdin.end()
      const timer = setTimeout(() => end('was stopped'), GRACE_MS)
      await ended.promise
      clearTimeout(timer)
    },
  }
  try {
    const about = await request<InitializeResponse>(
      methods.agent.initialize,
      {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
        clientInfo: { name: 'waymark', version: VERSION },
      },
      signal,
    )
    if (about?.protocolVersion !== PROTOCOL_VERSION) {
      const text = `The agent ${name} does not speak version ${PROTOCOL_VERSION} of the protocol.`
      throw new ModelFailure('agent_protocol', text, { isRetryable: false })
    }
    return { ...program, about }
  } catch (error) {
    end('did not start')
    throw error
  }
}

function startWatchdog(
  child: ChildProcessWithoutNullStreams,
  cwd: string,
): ChildProcessWithoutNullStreams | null {
  // Without a process id the agent could not be started.
  if (child.pid === undefined) return null
  const argv = ['/bin/sh', '-c', WATCHDOG, 'sh', String(child.pid)]
  try {
    return startProgram({ argv, cwd, environment: {}, confined: null })
  } catch (error) {
    // No agent runs without its watchdog.
    signalGroup(child, 'SIGKILL')
    throw error
  }
}

/** Reads one message per line, within limits, and hands session updates to the turn in their order. */
function createLineReader(
  child: ChildProcessWithoutNullStreams,
  on: { update(params: unknown): Promise<void> | undefined; refuse(why: string): void },
) {
  let pieces: Buffer[] = []
  let length = 0
  let bytes = 0
  let messages = 0
  let isCleared = false
  let reading: ReadableStreamDefaultController<AnyMessage> | null = null
  /** True while an earlier line is being handled, or other work has its turn. */
  let isWaiting = false
  let ready: string[] = []
  /** Requests of ours without an answer, and of the program's. */
  const asked = new Set<unknown>()
  const unanswered = new Set<unknown>()

  function take(chunk: Buffer): void {
    if (isCleared) return
    bytes += chunk.length
    if (bytes > MAX_PROMPT_BYTES) return on.refuse('sent too much')
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      pieces.push(chunk.subarray(from, at))
      from = at + 1
      ready.push(Buffer.concat(pieces).toString())
      pieces = []
      length = 0
    }
    pieces.push(chunk.subarray(from))
    length += chunk.length - from
    if (length > MAX_LINE_BYTES) return on.refuse('sent a message that is too long')
    handReady()
  }

  function handReady(): void {
    const started = performance.now()
    while (!isWaiting && !isCleared && ready.length > 0 && unanswered.size < MAX_REQUESTS) {
      if (++messages > MAX_PROMPT_MESSAGES) return on.refuse('sent too many messages')
      const pending = hand(ready.shift() ?? '')
      if (pending) waitFor(pending)
      else if (performance.now() - started > SLICE_MS) waitFor(new Promise(setImmediate))
    }
    // The program waits until its messages are handled: it can't fill our memory.
    if (isWaiting || unanswered.size >= MAX_REQUESTS) child.stdout.pause()
    else child.stdout.resume()
  }

  function waitFor(work: Promise<unknown>): void {
    isWaiting = true
    const goOn = () => {
      isWaiting = false
      // Leave the microtasks, so that a flood of lines can't keep other work from its turn.
      setImmediate(handReady)
    }
    void work.then(goOn, goOn)
  }

  function hand(line: string): Promise<void> | undefined {
    const message = parsed(line)
    if (!message) return
    const { method, id } = message
    if (method === methods.client.session.update) return on.update(message.params)
    // An answer to nothing that we asked.
    if (method === undefined && !asked.delete(id)) return
    if (typeof method === 'string' && id !== undefined) unanswered.add(id)
    try {
      reading?.enqueue(message as unknown as AnyMessage)
    } catch {
      // The connection is closed.
    }
  }

  child.stdout.on('data', take)
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      reading = controller
    },
  })
  const writable = new WritableStream<AnyMessage>({
    write(message) {
      if (isCleared) return
      if ('method' in message && 'id' in message) asked.add(message.id)
      else if ('id' in message && unanswered.delete(message.id)) setImmediate(handReady)
      child.stdin.write(`${JSON.stringify(message)}\n`)
      if (child.stdin.writableLength > MAX_UNREAD_BYTES) on.refuse('does not read its messages')
    },
  })
  return {
    stream: { readable, writable },
    /** Each of our requests starts the count again. */
    reset() {
      bytes = 0
      messages = 0
    },
    /** Nothing more is read or kept. */
    clear() {
      isCleared = true
      pieces = []
      ready = []
    },
  }
}

interface Message {
  id?: unknown
  method?: unknown
  params?: unknown
}

/** Programs also print text that isn't a message. A message with a million values would take more memory than its bytes. */
function parsed(line: string): Message | null {
  try {
    const value = parseBoundedJson(line) as ({ jsonrpc?: unknown } & Message) | null
    return typeof value === 'object' && value !== null && value.jsonrpc === '2.0' ? value : null
  } catch {
    return null
  }
}

const AUTH_REQUIRED = -32000

function asFailure(name: string, method: string, error: unknown): ModelFailure {
  const { code, message, data } = error as { code?: number; message?: string; data?: unknown }
  if (code === AUTH_REQUIRED) {
    const text = `The agent ${name} is not signed in. Sign in with its own command in a terminal, then send the message again.`
    return new ModelFailure('agent_sign_in', text, { isRetryable: false, cause: error })
  }
  const details =
    data === undefined ? '' : ` ${cutText(typeof data === 'string' ? data : JSON.stringify(data), 500)}`
  const text = `The agent ${name} failed (${method}): ${cutText(String(message), 1000)}${details}`
  return new ModelFailure('agent_failed', text, { isRetryable: true, cause: error })
}

function lastLines(text: string): string {
  return cutText(text.trim().split('\n').slice(-5).join('\n'), 1000)
}
