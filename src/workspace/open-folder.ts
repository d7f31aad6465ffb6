import { closeSync, constants, existsSync, mkdirSync, openSync } from 'node:fs'
import { parentOf } from './aside.ts'
import { type BytePath, onDisk } from './byte-path.ts'

/** A symbolic link, or something that is no folder, stands where a folder should be. */
export class InTheWay extends Error {}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
/** Where the system lets one open relative to a handle; elsewhere the path must do. */
const HAS_HANDLES = existsSync('/proc/self/fd')
const MAX_OPEN = 100

export interface OpenFolder {
  /** The path of an entry, as the file system takes it; it stays in this very folder whatever happens to its name. */
  at(name: BytePath): string | Buffer
}

/**
 * Folders below the root, opened step by step and without following links, so that none made meanwhile leads out of the
 * workspace. They stay open for the next file in them.
 */
export interface OpenFolders {
  /** Null when it is not there and not to be made. */
  get(path: BytePath, create: boolean): OpenFolder | null
  /** Lets go of all of them; they are opened anew when they are needed again. */
  close(): void
}

export function createOpenFolders(root: BytePath): OpenFolders {
  const open = new Map<BytePath, OpenFolder & { descriptor: number }>()

  function get(path: BytePath, create: boolean): OpenFolder | null {
    const known = open.get(path)
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
    if (open.size >= MAX_OPEN) close()
    open.set(path, folder)
    return folder
  }

  function close(): void {
    for (const { descriptor } of open.values()) closeSync(descriptor)
    open.clear()
  }

  return { get, close }
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
