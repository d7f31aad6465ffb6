import { hash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { BytePath } from './byte-path.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { isEqual, isThere, lookAt } from './look.ts'
import type { OpenFolder, OpenFolders } from './open-folder.ts'
import { type Rescued, rescue } from './rescued.ts'
import type { TreeEntry } from './trees.ts'

/**
 * Holds taken files while they are compared and replaced, and new files until each is put in place atomically. They are in
 * our own folder, or, if that is on another file system, next to the file under a hidden name. The names are derived from
 * the path, so recovery after a crash knows where each file was taken from.
 *
 *   taken ──► compared ──► held ──► checked twice more ──► deleted
 *                │                        │
 *                └─ changed: restored     └─ changed: rescued under its own path
 */
export interface Aside {
  /** Moves the current entry aside and returns its new location. */
  take(folder: OpenFolder, path: BytePath): Place
  /** Finds the entry that was taken from this path before a crash; null when there is none. */
  leftOver(folder: OpenFolder, path: BytePath): Place | null
  /** Restores the entry to its path; rescues it if another entry has taken the path. */
  putBack(folder: OpenFolder, path: BytePath, place: Place): void
  /** Keeps a taken file although a checkpoint has it: a program that holds it open may still write to it. */
  hold(path: BytePath, place: Place, saved: TreeEntry): void
  /** Restores a held file; returns false when none is held for this path. */
  release(folder: OpenFolder, path: BytePath): boolean
  /** The temporary path of the new file, which the caller writes. */
  fresh(path: BytePath): string
  /** Puts the new file in place; never overwrites an existing entry. */
  put(folder: OpenFolder, path: BytePath): void
  putLink(folder: OpenFolder, path: BytePath, target: Buffer): void
  /** Reserves disk space for the writes after the files; `useReserve` frees it. Throws when the disk is full. */
  reserve(): void
  useReserve(): void
  /** Checks the held files again and rescues those that have changed; returns every file rescued so far. */
  lookAgain(folders: OpenFolders): Rescued[]
  /** Moves the held files out of the way of the next operation. `settle` checks them once more and deletes them. */
  retire(): { settle(folders: OpenFolders): Rescued[] }
  /** Deletes the rest; rescues taken files that were neither restored nor held. */
  clear(): void
}

type Place = string | Buffer

interface Held {
  /** In our own folder; otherwise next to its original path. */
  isOwn: boolean
  saved: TreeEntry
  /** Inode, size and mtime when its content was verified; null when the mtime is too recent to show another change. */
  stamp: string | null
}

/** File system timestamps are coarse: a file that changed within this time may change again without a new mtime. */
const RACY_MS = 2000
const RESERVED_BYTES = 4 * 1024 * 1024
const RETIRED = 'retired-'

export function createAside(options: {
  folder: string
  rescued: string
  /** True if the store has the file's bytes, so that a crash's leftover needs no rescue. Default: always false. */
  isStored?: (oid: string) => boolean
  /** Every path of the operation, so that files left by a crash can be rescued under their paths. */
  paths: readonly BytePath[]
}): Aside {
  const { folder: base } = options
  const ids = new Map(options.paths.map((path) => [idOf(path), path]))
  for (const [id, path] of readPaths(base)) if (!ids.has(id)) ids.set(id, path)
  mkdirSync(base, { recursive: true })
  const hasLeftOvers = readdirSync(base).some((name) => name.startsWith('taken-') || name === 'beside')
  writePaths(base, [...ids.values()])
  const own = (path: BytePath) => join(base, `taken-${idOf(path)}`)
  const fresh = (path: BytePath) => join(base, `fresh-${idOf(path)}`)
  const ballast = join(base, 'reserve')
  const held = new Map<BytePath, Held>()
  const rescued: Rescued[] = []

  function keep(place: Place, path: BytePath): void {
    rescued.push(rescue(options.rescued, place, path))
  }

  function lookAgain(folders: OpenFolders): Rescued[] {
    for (const [path, one] of held) {
      const place = pathAside(base, path, one, folders)
      if (place !== null && isStill(place, one)) continue
      held.delete(path)
      if (place !== null) keep(place, path)
    }
    rescueStrays()
    return [...rescued]
  }

  /** Rescues taken files that were neither restored to their place nor found in a checkpoint. */
  function rescueStrays(): void {
    for (const name of readdirSync(base).filter((one) => one.startsWith('taken-'))) {
      const path = ids.get(name.slice('taken-'.length))
      if (path !== undefined && held.has(path)) continue
      const found = lookAt(join(base, name))
      if (found && found !== 'other' && options.isStored?.(found.oid)) unlinkSync(join(base, name))
      else keep(join(base, name), path ?? name)
    }
  }

  function putBack(folder: OpenFolder, path: BytePath, place: Place): void {
    const target = folder.at(nameOf(path))
    try {
      linkSync(place, target)
    } catch {
      // The path is taken, or the file system has no hard links.
      if (!isThere(target)) return renameSync(place, target)
      return keep(place, path)
    }
    unlinkSync(place)
  }

  return {
    fresh,
    putBack,
    lookAgain,
    take(folder, path) {
      const from = folder.at(nameOf(path))
      try {
        renameSync(from, own(path))
        return own(path)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
        // After a crash, this marker makes recovery search next to the files too.
        writeFileSync(join(base, 'beside'), '')
        const beside = folder.at(besideName(path))
        renameSync(from, beside)
        return beside
      }
    },
    leftOver(folder, path) {
      if (!hasLeftOvers) return null
      return [own(path), folder.at(besideName(path))].find((place) => isThere(place)) ?? null
    },
    hold(path, place, saved) {
      held.set(path, { isOwn: place === own(path), saved, stamp: isYoung(place) ? null : stampOf(place) })
    },
    release(folder, path) {
      const found = held.get(path)
      if (!found) return false
      held.delete(path)
      putBack(folder, path, found.isOwn ? own(path) : folder.at(besideName(path)))
      return true
    },
    put(folder, path) {
      const target = folder.at(nameOf(path))
      try {
        linkSync(fresh(path), target)
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'EXDEV' && code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EMLINK') throw error
        const copy = folder.at(`.waymark-fresh-${idOf(path)}`)
        try {
          copyFileSync(fresh(path), copy)
          chmodSync(copy, lstatSync(fresh(path)).mode & 0o777)
          if (isThere(target)) throw Object.assign(new Error('the target exists'), { code: 'EEXIST' })
          renameSync(copy, target)
        } catch (why) {
          rmSync(copy, { force: true })
          throw why
        }
      }
      unlinkSync(fresh(path))
    },
    putLink: (folder, path, target) => symlinkSync(target, folder.at(nameOf(path))),
    reserve() {
      const file = openSync(ballast, 'w')
      try {
        const block = Buffer.alloc(1024 * 1024, 1)
        for (let written = 0; written < RESERVED_BYTES; written += block.length) writeSync(file, block)
        fsyncSync(file)
      } finally {
        closeSync(file)
      }
    },
    useReserve: () => rmSync(ballast, { force: true }),
    retire() {
      const retired = join(dirname(base), `${RETIRED}${randomBytes(6).toString('hex')}`)
      renameSync(base, retired)
      return {
        settle(folders) {
          const late: Rescued[] = []
          for (const [path, one] of held) {
            const place = pathAside(retired, path, one, folders)
            if (place === null) continue
            if (isStill(place, one)) unlinkSync(place)
            else late.push(rescue(options.rescued, place, path))
          }
          rmSync(retired, { recursive: true, force: true })
          return late
        },
      }
    },
    clear() {
      held.clear()
      rescueStrays()
      rmSync(base, { recursive: true, force: true })
    },
  }
}

/**
 * Cleans up after killed processes, which leave files that were waiting for their last check: deletes those that the object
 * store has and rescues the others.
 */
export function settleRetired(options: {
  tmp: string
  rescued: string
  folders: OpenFolders
  isStored: (oid: string) => boolean
}): Rescued[] {
  const { tmp, rescued, folders, isStored } = options
  if (!existsSync(tmp)) return []
  const late: Rescued[] = []
  const settle = (place: Place, path: BytePath) => {
    const found = lookAt(place)
    if (found && found !== 'other' && isStored(found.oid)) unlinkSync(place)
    else if (found) late.push(rescue(rescued, place, path))
  }
  for (const name of readdirSync(tmp).filter((one) => one.startsWith(RETIRED))) {
    const folder = join(tmp, name)
    const paths = readPaths(folder)
    for (const file of readdirSync(folder).filter((one) => one.startsWith('taken-'))) {
      settle(join(folder, file), paths.get(file.slice('taken-'.length)) ?? file)
    }
    for (const path of existsSync(join(folder, 'beside')) ? paths.values() : []) {
      const place = folders.get(parentOf(path), false)?.at(besideName(path))
      if (place !== undefined && isThere(place)) settle(place, path)
    }
    rmSync(folder, { recursive: true, force: true })
  }
  return late
}

/**
 * Restores files that a killed edit had taken and not replaced. Call it only while the workspace is locked, so that no
 * process has an edit in progress.
 */
export function undoKilledEdit(options: { folder: string; rescued: string; folders: OpenFolders }): void {
  if (!existsSync(options.folder)) return
  const aside = createAside({ ...options, paths: [] })
  for (const path of readPaths(options.folder).values()) {
    const folder = options.folders.get(parentOf(path), true)
    const taken = folder && aside.leftOver(folder, path)
    if (taken && !isThere(folder.at(nameOf(path)))) aside.putBack(folder, path, taken)
  }
  aside.clear()
}

function idOf(path: BytePath): string {
  return hash('sha1', Buffer.from(path, 'latin1'), 'hex')
}

function besideName(path: BytePath): BytePath {
  return `.waymark-taken-${idOf(path)}`
}

function writePaths(folder: string, paths: readonly BytePath[]): void {
  const file = openSync(join(folder, 'paths'), 'w')
  try {
    writeSync(file, JSON.stringify(paths))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function readPaths(folder: string): Map<string, BytePath> {
  try {
    const paths = JSON.parse(readFileSync(join(folder, 'paths'), 'utf8')) as BytePath[]
    return new Map(paths.map((path) => [idOf(path), path]))
  } catch {
    // Missing, or truncated by a crash: nothing was taken yet.
    return new Map()
  }
}

/** Resolves the path each time: the folder's descriptor may have been closed and its number reused. */
function pathAside(base: string, path: BytePath, { isOwn }: Held, folders: OpenFolders): Place | null {
  const place = isOwn
    ? join(base, `taken-${idOf(path)}`)
    : folders.get(parentOf(path), false)?.at(besideName(path))
  return place !== undefined && isThere(place) ? place : null
}

function isStill(place: Place, { saved, stamp }: Held): boolean {
  return (stamp !== null && stampOf(place) === stamp) || isEqual(lookAt(place), saved)
}

function stampOf(place: Place): string | null {
  const found = lstatSync(place, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.ino} ${found.size} ${found.mtimeNs}` : null
}

function isYoung(place: Place): boolean {
  const found = lstatSync(place, { throwIfNoEntry: false })
  return found === undefined || found.mtimeMs > Date.now() - RACY_MS
}
