import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Place, Sandbox } from './confined-place.ts'
import { NotConfinable } from './repository-guard.ts'
import { isTooWide } from './sandbox.ts'
import { KEPT_FOLDERS } from './toolchains.ts'

/**
 * The only place that starts programs for the agent: commands, hooks and tool servers. Each runs in its own process group, with
 * only the environment passed here.
 */
export interface Program {
  argv: readonly string[]
  cwd: string
  environment: Readonly<Record<string, string>>
  /** Null to run it without a sandbox, as the person would. */
  confined: { sandbox: Sandbox; place: Place; network: boolean } | null
}

export function startProgram({ argv, cwd, environment, confined }: Program): ChildProcessWithoutNullStreams {
  if (confined) {
    if (isTooWide(confined.place)) throw new NotConfinable('the workspace contains the home folder')
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
    // Starts a process group, so that a signal reaches all its processes.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // An 'error' event without a listener would crash the server; callers add theirs, but may not get that far.
  child.on('error', () => {})
  // The pipes are missing when the process is out of file descriptors, despite the types.
  if (!(child.stdin as unknown) || !(child.stdout as unknown) || !(child.stderr as unknown)) {
    throw new Error('no room for another program: out of file descriptors')
  }
  return child
}

/** Signals every process of the program that hasn't left its group; inside a sandbox none can leave. */
export function signalGroup(child: { pid?: number | undefined }, name: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, name)
  } catch (error) {
    // No process is left.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Runs a command to completion; returns its exit code, or null if it didn't run or was killed. */
export async function tryOut(argv: readonly string[]): Promise<number | null> {
  const [program = '', ...args] = argv
  return await new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'ignore', env: { PATH: '/usr/bin:/bin' }, timeout: TRY_MS })
    child.once('error', () => resolve(null))
    child.once('exit', (code) => resolve(code))
  })
}

const TRY_MS = 5000
