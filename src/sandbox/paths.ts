import { realpathSync } from 'node:fs'
import { delimiter, isAbsolute, join, sep } from 'node:path'

/** A path with its links resolved, or unchanged if it doesn't exist. */
export function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

export function isInside(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

/** The entries of a search path that the project can't control: absolute ones outside of it. */
export function safePath(path: string, project: string): string {
  const root = realOf(project)
  return path
    .split(delimiter)
    .filter((entry) => isAbsolute(entry) && !isInside(root, realOf(entry)))
    .join(delimiter)
}

/** The real path of a program on a search path, or null. */
export function findProgram(name: string, path: string): string | null {
  for (const folder of path.split(delimiter)) {
    try {
      return realpathSync(join(folder, name))
    } catch {
      // Not in this folder.
    }
  }
  return null
}
