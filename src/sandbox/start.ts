import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { NotConfinable } from './repository-guard.ts'
import { isTooWide, type Place, type Sandbox } from './sandbox.ts'
import { KEPT_FOLDERS } from './toolchains.ts'

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
    if (isTooWide(confined.place)) throw new NotConfinable('the workspace holds the home folder')
    for (const name of KEPT_FOLDERS) {
      mkdirSync(join(confined.place.privateHome, name), { recursive: true, mode: 0o700 })
    }
  }
  const [program = '', ...args] = confined
    ? confined.sandbox.wrap(argv, confined.place, { network: confined.network })
    : argv
  const child = spawn(program, args, {
    cwd,
    env: { ...environment, ...(confined ? { HOME: confined.place.home ?? '/tmp', TMPDIR: '/tmp' } : {}) },
    // A group of its own, so that all of it can be ended.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // Without a listener it would end the server; callers have their own, but may not get that far.
  child.on('error', () => {})
  // Out of descriptors there are no pipes, whatever the types say.
  if (!(child.stdin as unknown) || !(child.stdout as unknown) || !(child.stderr as unknown)) {
    throw new Error('the system has no room for another program')
  }
  return child
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
