import { hash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { BytePath } from './byte-path.ts'
import { gitMode, permissions } from './folder-tree.ts'
import type { OpenFolder } from './open-folder.ts'
import { objectId } from './pack.ts'
import type { TreeEntry } from './trees.ts'

/**
 * Where files are taken while they are compared, and from where new ones are put in place, each in one step. Usually in our
 * own folder; where that is on another file system, beside the file under a hidden name. The names follow from the path,
 * so that after a crash it is known what was taken from where.
 */
export interface Aside {
  /** Takes whatever is there now, and answers where it is. */
  take(folder: OpenFolder, name: BytePath, path: BytePath): Place
  /** Where something is that was taken from there before a crash, or null. */
  leftOver(folder: OpenFolder, path: BytePath): Place | null
  /** Back to where it was, unless something else is there by now: then it is kept among the rescued ones. */
  putBack(folder: OpenFolder, name: BytePath, place: Place): void
  /** The file that will be put in place; written by the caller. */
  fresh(path: BytePath): string
  /** Puts it in place, never over something that is there. */
  put(folder: OpenFolder, name: BytePath, path: BytePath): void
  putLink(folder: OpenFolder, name: BytePath, target: Buffer): void
  clear(): void
}

type Place = string | Buffer

/** A file or link as it is found, `other` for anything else, null for nothing. */
export type Look = (TreeEntry & { permissions: number }) | 'other' | null

export function createAside(options: { folder: string; rescued: string }): Aside {
  mkdirSync(options.folder, { recursive: true })
  const id = (path: BytePath) => hash('sha1', Buffer.from(path, 'latin1'), 'hex')
  const own = (path: BytePath) => join(options.folder, `taken-${id(path)}`)
  const fresh = (path: BytePath) => join(options.folder, `fresh-${id(path)}`)
  const beside = (folder: OpenFolder, path: BytePath) => folder.at(`.waymark-taken-${id(path)}`)

  const hasLeftOvers = readdirSync(options.folder).length > 0

  function rescue(place: Place, name: string): void {
    mkdirSync(options.rescued, { recursive: true })
    const kept = join(options.rescued, `${Date.now()}-${randomBytes(3).toString('hex')}-${name}`)
    try {
      renameSync(place, kept)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
      copyFileSync(place, kept)
      unlinkSync(place)
    }
  }

  return {
    fresh,
    take(folder, name, path) {
      try {
        renameSync(folder.at(name), own(path))
        return own(path)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
        // So that after a crash it is looked for there.
        writeFileSync(join(options.folder, 'beside'), '')
        renameSync(folder.at(name), beside(folder, path))
        return beside(folder, path)
      }
    },
    leftOver(folder, path) {
      if (!hasLeftOvers) return null
      return [own(path), beside(folder, path)].find((place) => isThere(place)) ?? null
    },
    putBack(folder, name, place) {
      try {
        linkSync(place, folder.at(name))
      } catch {
        // Something else is there, or there are no hard links here.
        if (!isThere(folder.at(name))) return renameSync(place, folder.at(name))
        return rescue(place, 'taken')
      }
      unlinkSync(place)
    },
    put(folder, name, path) {
      try {
        linkSync(fresh(path), folder.at(name))
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'EXDEV' && code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EMLINK') throw error
        const copy = folder.at(`.waymark-fresh-${id(path)}`)
        copyFileSync(fresh(path), copy)
        chmodSync(copy, lstatSync(fresh(path)).mode & 0o777)
        if (isThere(folder.at(name))) {
          unlinkSync(copy)
          throw Object.assign(new Error('it is there'), { code: 'EEXIST' })
        }
        renameSync(copy, folder.at(name))
      }
      unlinkSync(fresh(path))
    },
    putLink: (folder, name, target) => symlinkSync(target, folder.at(name)),
    clear() {
      for (const name of readdirSync(options.folder)) {
        // Taken, and neither put back nor found to be saved: somebody will want it.
        if (name.startsWith('taken-')) rescue(join(options.folder, name), name)
        else unlinkSync(join(options.folder, name))
      }
    },
  }
}

function isThere(place: string | Buffer): boolean {
  return lstatSync(place, { throwIfNoEntry: false }) !== undefined
}

export function lookAt(place: string | Buffer): Look {
  const found = lstatSync(place, { throwIfNoEntry: false })
  if (!found) return null
  if (!found.isFile() && !found.isSymbolicLink()) return 'other'
  const bytes = found.isSymbolicLink()
    ? Buffer.from(readlinkSync(place, 'latin1'), 'latin1')
    : readFileSync(place)
  return {
    mode: gitMode(found.mode),
    oid: objectId('blob', bytes).toString('hex'),
    permissions: permissions(found.mode),
  }
}

export function isEqual(found: Look, entry: TreeEntry | null): boolean {
  if (found === 'other') return false
  return found?.oid === entry?.oid && found?.mode === entry?.mode
}

export function nameOf(path: BytePath): BytePath {
  return path.slice(path.lastIndexOf('/') + 1)
}

export function parentOf(path: BytePath): BytePath {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}
