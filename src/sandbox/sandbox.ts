import { sep } from 'node:path'
import { createBubblewrap } from './bubblewrap.ts'
import { findProgram, isInside } from './paths.ts'
import { createSeatbelt } from './seatbelt.ts'

/**
 * Where commands and tool servers run. Inside, the workspace is writable except for what git executes, the system is
 * read-only, the home folder is one of the project's own with the person's toolchains in it, our data and other people's
 * files are not there, nothing is connected, and nothing outlives the command.
 */
export interface Sandbox {
  name: 'bubblewrap' | 'sandbox-exec'
  /** The command line that runs `argv` inside. */
  wrap(argv: readonly string[], place: Place, options: { network: boolean }): string[]
}

export interface Place {
  /** The working copy; links resolved. */
  workspace: string
  /** The person's home folder, and the folder that stands for it inside. One that does not exist is `/tmp` inside. */
  home: string | null
  privateHome: string
  /** Folders that must not be seen: our data, our configuration. */
  hidden: readonly string[]
  /** The search path of programs, for toolchains in the home folder. */
  path: string
}

export type FoundSandbox = { sandbox: Sandbox; why: null } | { sandbox: null; why: string }

/** The sandbox of this machine, tried out, or why there is none. */
export async function findSandbox(options: {
  path: string
  /** Runs a command to its end; resolves with its exit code. */
  tryOut(argv: readonly string[]): Promise<number | null>
}): Promise<FoundSandbox> {
  const { path, tryOut } = options
  if (process.platform === 'linux')
    return await createBubblewrap({ program: findProgram('bwrap', path), tryOut })
  if (process.platform === 'darwin')
    return await createSeatbelt({ program: findProgram('sandbox-exec', path), tryOut })
  return { sandbox: null, why: 'there is no sandbox for this system' }
}

/** A workspace that holds the home folder, or the system, can't be confined without letting all of that in. */
export function isTooWide({ workspace, home }: Pick<Place, 'workspace' | 'home'>): boolean {
  return (home !== null && isInside(workspace, home)) || workspace === '/' || workspace.split(sep).length < 3
}
