import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { isTooWide, type Place, type Sandbox } from './sandbox.ts'

/**
 * The only place that starts programs of the agent's: commands and tool servers. Each gets a group of its own, and the
 * environment that is given here and nothing else.
 */
export interface Program {
  argv: readonly string[]
  cwd: string
  environment: Readonly<Record<string, string>>
  /** Null to run it as the person would. */
  confined: { sandbox: Sandbox; place: Place; network: boolean } | null
}

export function startProgram({ argv, cwd, environment, confined }: Program): ChildProcessWithoutNullStreams {
  if (confined) {
    if (isTooWide(confined.place))
      throw new Error('the workspace holds the home folder and can not be confined')
    mkdirSync(confined.place.privateHome, { recursive: true, mode: 0o700 })
  }
  const [program = '', ...args] = confined
    ? confined.sandbox.wrap(argv, confined.place, { network: confined.network })
    : argv
  return spawn(program, args, {
    cwd,
    env: { ...environment, ...(confined ? { HOME: confined.place.home ?? '/tmp', TMPDIR: '/tmp' } : {}) },
    // A group of its own, so that all of it can be ended.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

/** Signals everything that the program has started and that has not left its group; inside a sandbox nothing can. */
export function signalGroup(child: { pid?: number | undefined }, name: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, name)
  } catch (error) {
    // Nothing is left.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Runs a command to its end and returns its exit code, or null. */
export async function tryOut(argv: readonly string[]): Promise<number | null> {
  const [program = '', ...args] = argv
  return await new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'ignore', env: { PATH: '/usr/bin:/bin' }, timeout: TRY_MS })
    child.once('error', () => resolve(null))
    child.once('exit', (code) => resolve(code))
  })
}

const TRY_MS = 5000
