import { isAbsolute, relative, resolve } from 'node:path'
import type {
  CreateTerminalRequest,
  CreateTerminalResponse,
  TerminalOutputResponse,
  WaitForTerminalExitResponse,
} from '@agentclientprotocol/sdk'
import { RequestError } from '@agentclientprotocol/sdk'
import { Cancelled, type Turn } from '../../core/agent.ts'
import type { FunctionCall } from '../provider/mapping.ts'
import type { ToolRunner } from '../tool-runner.ts'
import { MAX_OUTPUT } from './agent-call.ts'

/** Commands that an agent has us run: each is a call of `run_command`, under its policy and in its sandbox. */
export interface Terminals {
  create(
    request: CreateTerminalRequest,
    inTurn: <T>(work: () => Promise<T>) => Promise<T>,
  ): Promise<CreateTerminalResponse>
  output(id: string): TerminalOutputResponse
  waitForExit(id: string): Promise<WaitForTerminalExitResponse>
  kill(id: string): void
  release(id: string): void
  /** The output so far; empty for terminals that are not ours. */
  outputOf(id: string): string
  /** Ends those that still run, and waits until they have ended. */
  close(): Promise<void>
}

const MAX_TERMINALS = 100

interface Terminal {
  output: string
  isCut: boolean
  limit: number
  exit: WaitForTerminalExitResponse | null
  ended: Promise<WaitForTerminalExitResponse>
  killer: AbortController
}

export function createTerminals(deps: {
  turn: Turn
  runner: Pick<ToolRunner, 'runFor'>
  root: string
  place(name: string, args: object): FunctionCall
}): Terminals {
  const { turn } = deps
  const terminals = new Map<string, Terminal>()
  let created = 0

  function find(id: string): Terminal {
    const terminal = terminals.get(id)
    if (!terminal) throw RequestError.resourceNotFound(id)
    return terminal
  }

  /** A copy of the turn whose writer also collects what the command prints. */
  function listening(terminal: () => Terminal, callId: string): Turn {
    return {
      ...turn,
      signal: AbortSignal.any([turn.signal, terminal().killer.signal]),
      writer: {
        ...turn.writer,
        write(...frames) {
          for (const frame of frames) {
            if (frame.kind !== 'tool.output' || !frame.partial || frame.tool_call_id !== callId) continue
            add(terminal(), String(frame.output))
          }
          turn.writer.write(...frames)
        },
      },
    }
  }

  function add(terminal: Terminal, text: string): void {
    const whole = terminal.output + text
    terminal.isCut ||= whole.length > terminal.limit
    terminal.output = terminal.limit === 0 ? '' : whole.slice(-terminal.limit)
  }

  return {
    async create(request, inTurn) {
      if (++created > MAX_TERMINALS) throw RequestError.internalError(undefined, 'too many terminals')
      const command = commandOf(request, deps.root)
      const call = await inTurn(async () => deps.place('run_command', { command }))
      const limit = Math.max(0, Math.min(Math.trunc(request.outputByteLimit ?? MAX_OUTPUT), MAX_OUTPUT))
      const terminal: Terminal = {
        output: '',
        isCut: false,
        limit,
        exit: null,
        killer: new AbortController(),
        ended: Promise.resolve({}),
      }
      terminal.ended = deps.runner
        .runFor(
          call,
          listening(() => terminal, call.callId),
        )
        .then(
          ({ output, exitCode, isFailed }) => {
            // Frames show the first part of a long output; the outcome has all of it.
            if (typeof output === 'string' && output.length > terminal.output.length) {
              terminal.output = ''
              add(terminal, output)
            }
            return { exitCode: exitCode ?? (isFailed ? 1 : 0), signal: null }
          },
          () => ({ exitCode: null, signal: 'SIGKILL' }),
        )
      void terminal.ended.then((exit) => {
        terminal.exit = exit
      })
      terminals.set(call.callId, terminal)
      return { terminalId: call.callId }
    },
    output(id) {
      const { output, isCut, exit } = find(id)
      return { output, truncated: isCut, ...(exit ? { exitStatus: exit } : {}) }
    },
    waitForExit: async (id) => await find(id).ended,
    kill: (id) => find(id).killer.abort(new Cancelled('the agent')),
    release(id) {
      find(id).killer.abort(new Cancelled('the agent'))
    },
    outputOf: (id) => terminals.get(id)?.output ?? '',
    async close() {
      for (const { killer, exit } of terminals.values()) if (!exit) killer.abort(new Cancelled('the agent'))
      await Promise.all([...terminals.values()].map(({ ended }) => ended))
    },
  }
}

/** One command line for the shell. Every word that comes from the agent's list is quoted. */
function commandOf({ command, args = [], env = [], cwd }: CreateTerminalRequest, root: string): string {
  const words = args.length === 0 ? command : [command, ...args].map(quoted).join(' ')
  const variables = env
    .filter(({ name }) => /^[A-Za-z_]\w*$/.test(name))
    .map(({ name, value }) => `${name}=${quoted(value)} `)
    .join('')
  const below = cwd == null ? '' : relative(root, resolve(root, cwd))
  if (below.startsWith('..') || isAbsolute(below)) {
    throw RequestError.invalidParams(undefined, 'cwd must be inside the workspace')
  }
  return `${below === '' ? '' : `cd ${quoted(below)} && `}${variables === '' ? '' : `export ${variables}&& `}${words}`
}

function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
