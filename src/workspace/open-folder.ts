import { closeSync, constants, existsSync, mkdirSync, openSync } from 'node:fs'
import { type BytePath, onDisk } from './byte-path.ts'

/** A symbolic link, or something that is no folder, stands where a folder should be. */
export class InTheWay extends Error {}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
/** Where the system lets one open relative to a handle; elsewhere the path must do. */
const HAS_HANDLES = existsSync('/proc/self/fd')

export interface OpenFolder {
  /** The path of an entry, as the file system takes it; it stays in this very folder whatever happens to its name. */
  at(name: BytePath): string | Buffer
  close(): void
}

/**
 * Opens a folder below the root, step by step and without following links, so that none made meanwhile leads out of the
 * workspace. Null when it is not there and not to be made.
 */
export function openFolder(root: BytePath, path: BytePath, create: boolean): OpenFolder | null {
  let folder = handle(root, openSync(onDisk(root), O_RDONLY | O_DIRECTORY))
  for (const part of path === '' ? [] : path.split('/')) {
    try {
      folder = below(folder, part, create)
    } catch (error) {
      folder.close()
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return null
      if (code === 'ELOOP' || code === 'ENOTDIR') throw new InTheWay(code)
      throw error
    }
  }
  return folder
}

type Handle = OpenFolder & { path: BytePath }

function below(outer: Handle, name: BytePath, create: boolean): Handle {
  const path = outer.at(name)
  let opened: number
  try {
    opened = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  } catch (error) {
    if (!create || (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    mkdirSync(path)
    opened = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  }
  outer.close()
  return handle(`${outer.path}/${name}`, opened)
}

function handle(path: BytePath, opened: number): Handle {
  const base = HAS_HANDLES ? `/proc/self/fd/${opened}` : path
  return { path, at: (name) => onDisk(`${base}/${name}`), close: () => closeSync(opened) }
}
