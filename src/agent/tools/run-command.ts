import * as z from 'zod'
import type { Grant } from '../../core/questions.ts'
import type { Place, Sandbox } from '../../sandbox/confined-place.ts'
import { NotConfinable, watchRepository } from '../../sandbox/repository-guard.ts'
import { signalGroup, startProgram } from '../../sandbox/start.ts'
import { createOutputBuffer } from './output-buffer.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'

const DEFAULT_SECONDS = 120
const MAX_SECONDS = 600
/** How long a command may take to end after SIGTERM. */
const GRACE_MS = 80
/** How long output may take to arrive after the command has ended. */
const DRAIN_MS = 150

/**
 * Outside a sandbox, a watchdog process runs next to the command's shell: when the server ends for any reason, it kills the
 * whole process group. So a command never outlives the server that would have recorded its outcome.
 */
const SHELL = `exec 3<&0 </dev/null
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
exec 3<&-
exec /bin/sh -c "$1" 2>&1`

export interface CommandOptions {
  root: string
  /** The only environment variables that commands see; they contain none of our secrets. */
  environment: Readonly<Record<string, string>>
  /** Null when there is no sandbox; then commands run with the user's permissions. */
  sandbox: { sandbox: Sandbox; place: Place } | null
  /** True if commands may use the network without a grant. */
  network: boolean
  /** Why commands are refused. Default: they are not. */
  refusal?: string | null
}

/** The arguments that are read before all of them are validated. */
function given(args: unknown): { command?: unknown; needs_network?: unknown } {
  return typeof args === 'object' && args !== null ? args : {}
}

export function runCommandTool(options: CommandOptions): Tool {
  return defineTool({
    name: 'run_command',
    description:
      'Runs a shell command in the workspace and returns its output and exit code. It has no input. ' +
      'Its background processes end when it ends. ' +
      (options.sandbox
        ? 'It runs in a sandbox: only the workspace is writable, and there is no network unless a person grants it.'
        : ''),
    // A refused command needs no approval.
    policy: options.refusal ? 'allow' : 'ask',
    confinement: (args) => ({
      sandbox: options.sandbox?.sandbox.name ?? null,
      network: options.network || options.sandbox === null,
      wantsNetwork: given(args).needs_network === true,
    }),
    subject: (args) => {
      const { command } = given(args)
      return typeof command === 'string' ? command : null
    },
    effects: { isRepeatable: false, files: 'unrecorded' },
    args: z.object({
      command: z.string().min(1),
      timeout_seconds: z.int().min(1).max(MAX_SECONDS).default(DEFAULT_SECONDS),
      needs_network: z
        .boolean()
        .optional()
        .describe('True if it needs network access, for example to install packages'),
    }),
    async run({ command, timeout_seconds }, { signal, show, grant }) {
      if (options.refusal) throw new ToolError(`Refused: ${options.refusal}.`)
      const output = createOutputBuffer(show)
      const { code, killedBy, isTimedOut, note } = await runToEnd(options, command, grant, {
        milliseconds: timeout_seconds * 1000,
        signal,
        onOutput: (chunk) => output.push(chunk),
      }).catch((error: unknown) => {
        if (!(error instanceof NotConfinable)) throw error
        throw new ToolError(
          `The command can't run in the sandbox: ${error.message}. A person can allow it to run outside.`,
        )
      })
      signal.throwIfAborted()
      const text = output.end()
      const how = isTimedOut
        ? `It took longer than ${timeout_seconds} s and was killed.`
        : killedBy
          ? `It was killed by ${killedBy}.`
          : `Exit code ${code}.`
      return {
        output: `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}[${how}${note}]`,
        isFailed: isTimedOut || killedBy !== null || code !== 0,
        exitCode: code,
      }
    },
  })
}

interface Ended {
  code: number | null
  killedBy: string | null
  isTimedOut: boolean
  /** Additional information about the outcome. */
  note: string
}

/** Runs a command to completion, then kills the background processes that it left. */
export function runToEnd(
  { root, environment, sandbox, network }: CommandOptions,
  command: string,
  grant: Grant,
  how: { milliseconds: number; signal: AbortSignal; onOutput: (chunk: Buffer) => void },
): Promise<Ended> {
  const { milliseconds, signal, onOutput } = how
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const isInside = sandbox !== null && !grant.outside
    const mend = isInside ? watchRepository(root) : () => ''
    const child = startProgram({
      argv: ['/bin/sh', '-c', isInside ? 'exec /bin/sh -c "$1" 2>&1' : SHELL, 'sh', command],
      cwd: root,
      environment,
      confined: isInside ? { ...sandbox, network: network || grant.network } : null,
    })
    // A sandbox ends with the server by itself; outside, the watchdog waits for this pipe to close.
    if (isInside) child.stdin.end()
    let isTimedOut = false
    let forced: NodeJS.Timeout | undefined
    const stop = () => {
      signalGroup(child, 'SIGTERM')
      forced = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
    }
    const timer = setTimeout(() => {
      isTimedOut = true
      stop()
    }, milliseconds)
    signal.addEventListener('abort', stop, { once: true })
    child.stdin.on('error', () => {})
    child.stdout.on('data', onOutput)
    child.stderr.on('data', onOutput)

    const finish = (code: number | null, killedBy: string | null) => {
      clearTimeout(timer)
      clearTimeout(forced)
      signal.removeEventListener('abort', stop)
      child.stdin.destroy()
      child.stdout.destroy()
      child.stderr.destroy()
      resolve({ code, killedBy, isTimedOut, note: mend() })
    }
    child.once('error', (error) => {
      finish(null, null)
      reject(new ToolError(`The command can't be started: ${error.message}`))
    })
    child.once('exit', (code, killedBy) => {
      // The shell has ended: kill its background processes and the watchdog.
      signalGroup(child, 'SIGKILL')
      const drained = setTimeout(() => finish(code, killedBy), DRAIN_MS)
      child.once('close', () => {
        clearTimeout(drained)
        finish(code, killedBy)
      })
    })
  })
}
