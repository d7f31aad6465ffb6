import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'

/** Larger files are not indexed, so they need not be read. */
const MAX_BYTES = 1024 * 1024

/** Hashes the files' current content, because timestamps are unreliable. */
export function hashesOf(root: string, paths: readonly string[]): (string | null)[] {
  const folders = new Map<string, boolean>()
  const isInside = (folder: string) => {
    let known = folders.get(folder)
    if (known === undefined) folders.set(folder, (known = leadsInside(root, folder)))
    return known
  }
  return paths.map((path) => (isInside(dirname(join(root, path))) ? hashOf(join(root, path)) : null))
}

function leadsInside(root: string, folder: string): boolean {
  try {
    const real = realpathSync(folder)
    return real === root || real.startsWith(root + sep)
  } catch {
    return false
  }
}

function hashOf(path: string): string | null {
  let file: number
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return null
  }
  try {
    const found = fstatSync(file)
    if (!found.isFile() || found.size > MAX_BYTES) return null
    return createHash('sha256').update(readFileSync(file)).digest('hex')
  } catch {
    return null
  } finally {
    closeSync(file)
  }
}
