import { type ChildProcess, spawn } from 'node:child_process'
import * as z from 'zod'
import { createOutputBuffer } from './output-buffer.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'

const DEFAULT_SECONDS = 120
const MAX_SECONDS = 600
/** How long a command may take to end by itself when it is asked to. */
const GRACE_MS = 80
/** How long its output may take to arrive when it has ended. */
const DRAIN_MS = 150

/**
 * The command's own shell, and beside it a process that waits for us: when we are gone, however that came about, it ends
 * the whole group. A command never outlives the server that would have noted what it did.
 */
const SHELL = `exec 3<&0 </dev/null
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
exec 3<&-
exec /bin/sh -c "$1" 2>&1`

export interface CommandOptions {
  root: string
  /** All that commands see of our environment: no secrets of ours are in it. */
  environment: Readonly<Record<string, string>>
}

export function runCommandTool(options: CommandOptions): Tool {
  return defineTool({
    name: 'run_command',
    description:
      'Runs a shell command in the workspace and returns its output and exit code. It has no input. ' +
      'What it leaves in the background ends with it.',
    policy: 'ask',
    args: z.object({
      command: z.string().min(1),
      timeout_seconds: z.int().min(1).max(MAX_SECONDS).default(DEFAULT_SECONDS),
    }),
    async run({ command, timeout_seconds }, { signal, show }) {
      const output = createOutputBuffer(show)
      const { code, killedBy, isTimedOut } = await runToEnd(options, command, {
        milliseconds: timeout_seconds * 1000,
        signal,
        onOutput: (chunk) => output.push(chunk),
      })
      signal.throwIfAborted()
      const text = output.end()
      const how = isTimedOut
        ? `It took longer than ${timeout_seconds} s and was ended.`
        : killedBy
          ? `It was ended by ${killedBy}.`
          : `Exit code ${code}.`
      return {
        output: `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}[${how}]`,
        isFailed: isTimedOut || killedBy !== null || code !== 0,
      }
    },
  })
}

interface Ended {
  code: number | null
  killedBy: string | null
  isTimedOut: boolean
}

function runToEnd(
  { root, environment }: CommandOptions,
  command: string,
  how: { milliseconds: number; signal: AbortSignal; onOutput: (chunk: Buffer) => void },
): Promise<Ended> {
  const { milliseconds, signal, onOutput } = how
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const child = spawn('/bin/sh', ['-c', SHELL, 'sh', command], {
      cwd: root,
      env: { ...environment },
      // A group of its own, so that all of it can be ended.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
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
      resolve({ code, killedBy, isTimedOut })
    }
    child.once('error', (error) => {
      finish(null, null)
      reject(new ToolError(`The command can not be started: ${error.message}`))
    })
    child.once('exit', (code, killedBy) => {
      // With the shell gone, whatever it left in the background goes too, and the one that waits for us.
      signalGroup(child, 'SIGKILL')
      const drained = setTimeout(() => finish(code, killedBy), DRAIN_MS)
      child.once('close', () => {
        clearTimeout(drained)
        finish(code, killedBy)
      })
    })
  })
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, name)
  } catch (error) {
    // Nobody is left.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
