import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { hiddenTrackedFiles, type StatusOptions } from '../git/status.ts'
import { findRepository } from '../git/user-repository.ts'
import { type BytePath, toBytePath } from './byte-path.ts'
import { parentOf } from './entry-path.ts'

/** Hidden files that the user's git tracks, such as `.gitignore` and `.github/`: they are part of the project (W3). */
export interface TrackedFiles {
  has(path: BytePath): boolean
  /** True if the folder contains such a file at any depth. */
  isAbove(folder: BytePath): boolean
  /** Reads the list again if git's index has changed; returns true if the list differs. */
  refresh(): Promise<boolean>
}

export const noTrackedFiles: TrackedFiles = {
  has: () => false,
  isAbove: () => false,
  refresh: async () => false,
}

export function createTrackedFiles(root: string, options: StatusOptions): TrackedFiles {
  let stamp = ''
  let files = new Set<BytePath>()
  let folders = new Set<BytePath>()
  return {
    has: (path) => files.has(path),
    isAbove: (folder) => folders.has(folder),
    async refresh() {
      const repository = await findRepository(root)
      const index =
        repository && lstatSync(join(repository.gitDir, 'index'), { throwIfNoEntry: false, bigint: true })
      const now = index ? `${index.ino} ${index.size} ${index.mtimeNs}` : ''
      if (now === stamp) return false
      const listed = index ? await hiddenTrackedFiles(root, options) : []
      // Git was too slow, or the repository is damaged: the files that were known count until the next attempt.
      if (listed === null) return false
      stamp = now
      const before = files
      files = new Set(listed.map(toBytePath))
      folders = new Set()
      for (const path of files) for (let at = parentOf(path); at !== ''; at = parentOf(at)) folders.add(at)
      return files.size !== before.size || [...files].some((path) => !before.has(path))
    },
  }
}
