import { sep } from 'node:path'
import { createBubblewrap } from './bubblewrap.ts'
import type { FoundSandbox, Place } from './confined-place.ts'
import { findProgram, isInside } from './paths.ts'
import { createSeatbelt } from './seatbelt.ts'

/** The sandbox of this machine after a trial run, or the reason why there is none. */
export async function findSandbox(options: {
  path: string
  /** Runs a command to completion; resolves with its exit code. */
  tryOut(argv: readonly string[]): Promise<number | null>
}): Promise<FoundSandbox> {
  const { path, tryOut } = options
  if (process.platform === 'linux')
    return await createBubblewrap({ program: findProgram('bwrap', path), tryOut })
  if (process.platform === 'darwin')
    return await createSeatbelt({ program: findProgram('sandbox-exec', path), tryOut })
  return { sandbox: null, why: 'no sandbox is available for this operating system' }
}

/** A workspace that contains the home folder or the system can't be confined without exposing all of it. */
export function isTooWide({ workspace, home }: Pick<Place, 'workspace' | 'home'>): boolean {
  return (home !== null && isInside(workspace, home)) || workspace === '/' || workspace.split(sep).length < 3
}
