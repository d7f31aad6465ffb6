import { closeSync, constants, existsSync, mkdirSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { type BytePath, onDisk } from './byte-path.ts'
import { parentOf } from './entry-path.ts'

/** A symbolic link, or another entry that isn't a folder, is where a folder should be. */
export class InTheWay extends Error {
  readonly code = 'ELOOP'
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
/** True if the system can open paths relative to a descriptor; otherwise we use the full path. */
const HAS_HANDLES = existsSync('/proc/self/fd')
const MAX_OPEN = 100

export interface OpenFolder {
  /** The path of an entry for file system calls; it stays in this folder even if the folder is renamed. */
  at(name: BytePath): string | Buffer
}

/**
 * Folders below the root, opened one path component at a time without following links, so that a link created meanwhile
 * can't lead out of the workspace. They stay open for the next file in them.
 */
export interface OpenFolders {
  /** Null when the folder doesn't exist and `create` is false. */
  get(path: BytePath, create: boolean): OpenFolder | null
  /** Makes the entries of this folder durable. */
  sync(path: BytePath): Promise<void>
  /** Closes all folders; `get` reopens them on demand. */
  close(): void
}

export function createOpenFolders(root: BytePath): OpenFolders {
  const opened = new Map<BytePath, OpenFolder & { descriptor: number }>()

  function get(path: BytePath, create: boolean): OpenFolder | null {
    const known = opened.get(path)
    if (known) return known
    const outer = path === '' ? null : get(parentOf(path), create)
    if (path !== '' && !outer) return null
    const name = path.slice(path.lastIndexOf('/') + 1)
    const descriptor = outer
      ? openBelow(outer.at(name), create)
      : openSync(onDisk(root), O_RDONLY | O_DIRECTORY)
    if (descriptor === null) return null
    const base = HAS_HANDLES ? `/proc/self/fd/${descriptor}` : `${root}/${path}`
    const folder = { descriptor, at: (entry: BytePath) => onDisk(`${base}/${entry}`) }
    if (opened.size >= MAX_OPEN) close()
    opened.set(path, folder)
    return folder
  }

  function close(): void {
    for (const { descriptor } of opened.values()) closeSync(descriptor)
    opened.clear()
  }

  return {
    get,
    close,
    async sync(path) {
      const folder = get(path, false)
      if (!folder) return
      // Use a separate handle: the shared one may be closed during the sync.
      const handle = await open(folder.at('.'), O_RDONLY | O_DIRECTORY)
      try {
        await handle.sync()
      } finally {
        await handle.close()
      }
    },
  }
}

function openBelow(place: string | Buffer, create: boolean): number | null {
  const flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
  try {
    return openSync(place, flags)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ELOOP' || code === 'ENOTDIR') throw new InTheWay(code)
    if (code !== 'ENOENT') throw error
    if (!create) return null
    mkdirSync(place)
    return openSync(place, flags)
  }
}
