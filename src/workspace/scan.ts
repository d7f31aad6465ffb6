import {
  type BigIntStats,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
} from 'node:fs'
import type { FileEntry } from '../manifest/manifest.ts'
import { type BytePath, joined, onDisk } from './byte-path.ts'
import { type Folder, type FolderTree, isLink } from './folder-tree.ts'
import type { FolderRules, IgnoreRules, LeftOut } from './ignore-rules.ts'
import type { ObjectStore } from './object-store.ts'
import type { TrackedFiles } from './tracked-files.ts'

/** Scans the workspace into the tree: all of it, or only paths that may have changed. It reads only changed files. */
export interface Scan {
  full(): void
  /** Scans only these paths; returns false when a full scan is needed. */
  partial(paths: Iterable<BytePath>): boolean
  /** Returns true if the rules leave out a file at this path. */
  isLeftOut(path: BytePath): boolean
}

export interface ScanOptions {
  /** With links resolved. */
  root: BytePath
  /** Our own folder, relative to the root; null when it is outside. */
  own: BytePath | null
  tree: FolderTree
  rules: IgnoreRules
  objects: Pick<ObjectStore, 'put'>
  maxFileBytes: number
  /** Tool-written files are captured even if the rules leave them out. */
  isToolWritten(path: BytePath): boolean
  toolWritten(): Iterable<BytePath>
  tracked: Pick<TrackedFiles, 'has' | 'isAbove'>
  /** Called for each folder before it is read, so that no change in between is missed. */
  onFolder?: ((path: BytePath) => void) | undefined
  onProgress?: ((files: number) => void) | undefined
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
/** File system timestamps are coarse: a file that changed this recently before it was read may change again unseen. */
const RACY_NS = 2_000_000_000n
const READ_ATTEMPTS = 3
/** A larger .gitignore has no effect. */
const MAX_IGNORE_BYTES = 1024 * 1024
const PROGRESS_EVERY = 2000
/** Tool-written files are captured up to this size, even if the limit for other files is lower. */
export const MAX_KEPT_BYTES = 256 * 1024 * 1024

export function createScan(options: ScanOptions): Scan {
  const { root, own, tree, rules, objects, maxFileBytes } = options
  /** Files with several hard links: a change made through another name is not visible to the watches. */
  const linked = new Set<BytePath>()
  let seen = 0

  const at = (path: BytePath) => onDisk(path === '' ? root : `${root}/${path}`)

  function walk(folder: Folder, parentRules: FolderRules | null, inside: LeftOut | null): void {
    options.onFolder?.(folder.path)
    const entries = readdirSync(at(folder.path), { withFileTypes: true, encoding: 'latin1' })
    const rulesHere = rulesOf(folder, parentRules, entries)
    const areSame = folder.rules === rulesHere
    folder.rules = rulesHere
    folder.inside = inside
    const files = new Set<BytePath>()
    const folders = new Set<BytePath>()
    const leftOut = new Map<BytePath, LeftOut>()
    for (const entry of entries) {
      const { name } = entry
      const path = joined(folder.path, name)
      if (path === own) continue
      const isFolder = entry.isDirectory()
      const why =
        areSame && !inside && (isFolder ? isWalked(folder.folders.get(name)) : folder.files.has(name))
          ? null
          : reasonFor(rulesHere, name, path, isFolder, inside)
      if (isFolder) {
        if (why && !isLookedInto(path, why)) {
          leftOut.set(`${name}/`, why)
          if (keepToolWritten(folder.folders.get(name))) folders.add(name)
        } else if (tryWalk(folder, name, why)) folders.add(name)
        else leftOut.set(`${name}/`, 'unreadable')
      } else if (why) leftOut.set(name, why)
      else if (!entry.isFile() && !entry.isSymbolicLink()) leftOut.set(name, 'special')
      else {
        const kept = capture(folder, name, entry.isSymbolicLink())
        if (kept === 'captured') files.add(name)
        else if (kept !== 'gone') leftOut.set(name, kept)
      }
    }
    for (const name of folder.files.keys()) if (!files.has(name)) tree.removeFile(folder, name)
    for (const inner of folder.folders.values()) if (!folders.has(inner.name)) tree.removeFolder(inner)
    tree.setLeftOut(folder, leftOut)
  }

  function reasonFor(
    rulesHere: FolderRules,
    name: BytePath,
    path: BytePath,
    isFolder: boolean,
    inside: LeftOut | null,
  ): LeftOut | null {
    const why = rules.reason(rulesHere, name, isFolder, inside)
    if (!why || isFolder) return why
    return options.isToolWritten(path) || (why === 'hidden' && options.tracked.has(path)) ? null : why
  }

  /** True if a left-out folder may contain entries that a setting names or git tracks. */
  function isLookedInto(path: BytePath, why: LeftOut): boolean {
    if (why === 'repository') return false
    return rules.mayHold(path) || (why === 'hidden' && options.tracked.isAbove(path))
  }

  /** Keeps only the tool-written files of a left-out folder; returns false when none remain. */
  function keepToolWritten(folder: Folder | undefined): boolean {
    if (!folder) return false
    for (const name of folder.files.keys()) {
      if (!options.isToolWritten(joined(folder.path, name))) tree.removeFile(folder, name)
    }
    for (const inner of folder.folders.values()) if (!keepToolWritten(inner)) tree.removeFolder(inner)
    tree.setLeftOut(folder, new Map())
    folder.rules = null
    return folder.files.size + folder.folders.size > 0
  }

  /** Returns false when the folder can't be read. A folder that was removed meanwhile counts as empty. */
  function tryWalk(parent: Folder, name: BytePath, inside: LeftOut | null): boolean {
    let folder = parent.folders.get(name) ?? tree.addFolder(parent, name)
    try {
      const identity = identityOf(lstatSync(at(folder.path), { bigint: true }))
      if (folder.identity !== '' && folder.identity !== identity) {
        // A new folder has the same name: the watch of the old one must not count as a watch of this one.
        tree.removeFolder(folder)
        folder = tree.addFolder(parent, name)
      }
      folder.identity = identity
      walk(folder, parent.rules, inside)
      return true
    } catch (error) {
      tree.removeFolder(folder)
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EACCES' || code === 'EPERM') return false
      if (code === 'ENOENT' || code === 'ENOTDIR') return true
      throw error
    }
  }

  function rulesOf(folder: Folder, parent: FolderRules | null, entries: readonly Dirent[]): FolderRules {
    const file = entries.find((entry) => entry.name === '.gitignore')
    const text = file?.isFile() ? ignoreFile(joined(folder.path, '.gitignore')) : null
    return rules.below(parent, folder.path, text, folder.rules)
  }

  function ignoreFile(path: BytePath): string | null {
    try {
      return lstatSync(at(path)).size > MAX_IGNORE_BYTES ? null : readFileSync(at(path), 'latin1')
    } catch {
      // Git also continues without a .gitignore that it can't read.
      return null
    }
  }

  function capture(folder: Folder, name: BytePath, isLinkNow: boolean): LeftOut | 'captured' | 'gone' {
    if (++seen % PROGRESS_EVERY === 0) options.onProgress?.(seen)
    const path = joined(folder.path, name)
    const known = folder.files.get(name)
    if (known && !known.isRacy) {
      const found = lstatSync(at(path), { bigint: true, throwIfNoEntry: false })
      if (!found) return 'gone'
      if (isUnchanged(known, found)) return 'captured'
    }
    return store(folder, name, path, isLinkNow)
  }

  function store(
    folder: Folder,
    name: BytePath,
    path: BytePath,
    isLinkNow: boolean,
  ): LeftOut | 'captured' | 'gone' {
    const limit = options.isToolWritten(path) ? Math.max(MAX_KEPT_BYTES, maxFileBytes) : maxFileBytes
    try {
      const now = BigInt(Date.now()) * 1_000_000n
      const { bytes, stats } = isLinkNow ? readLink(path) : readWhole(path, limit)
      const entry: FileEntry = {
        size: Number(stats.size),
        mtime: stats.mtimeNs,
        ctime: stats.ctimeNs,
        ino: stats.ino,
        mode: Number(stats.mode),
        oid: objects.put('blob', bytes),
        isRacy: stats.ctimeNs >= now - RACY_NS,
      }
      tree.setFile(folder, name, entry)
      if (stats.nlink > 1n) linked.add(path)
      else linked.delete(path)
      return 'captured'
    } catch (error) {
      if (error instanceof TooLarge) return 'size'
      if (error instanceof NotAFile) return 'special'
      switch ((error as NodeJS.ErrnoException).code) {
        case 'ENOENT':
        case 'ENOTDIR':
          return 'gone'
        case 'EACCES':
        case 'EPERM':
          return 'unreadable'
        // The file has become a link or a socket; the next scan sees its new type.
        case 'ELOOP':
        case 'ENXIO':
        case 'EINVAL':
          return 'special'
        default:
          throw error
      }
    }
  }

  function readLink(path: BytePath): { bytes: Buffer; stats: BigIntStats } {
    const stats = lstatSync(at(path), { bigint: true })
    return { bytes: Buffer.from(readlinkSync(at(path), 'latin1'), 'latin1'), stats }
  }

  /** Reads the whole file as of one moment, if possible. */
  function readWhole(path: BytePath, limit: number): { bytes: Buffer; stats: BigIntStats } {
    const file = openSync(at(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    try {
      for (let attempt = 1; ; attempt++) {
        const before = fstatSync(file, { bigint: true })
        if (!before.isFile()) throw new NotAFile()
        if (before.size > limit) throw new TooLarge()
        const bytes = readBytes(file, Number(before.size), limit)
        const after = fstatSync(file, { bigint: true })
        const isStill = before.mtimeNs === after.mtimeNs && before.ctimeNs === after.ctimeNs
        // A file that keeps changing is taken as it is: its times are so recent that the next scan reads it again.
        if ((isStill && bytes.length === Number(after.size)) || attempt === READ_ATTEMPTS) {
          return { bytes, stats: after }
        }
      }
    } finally {
      closeSync(file)
    }
  }

  /** Scans one entry of a known folder; returns false when a full scan is needed. */
  function entry(folder: Folder, name: BytePath): boolean {
    const path = joined(folder.path, name)
    if (path === own) return true
    if (name === '.gitignore' || !folder.rules) return false
    const found = lstatSync(at(path), { bigint: true, throwIfNoEntry: false })
    if (!found) {
      linked.delete(path)
      tree.forget(folder, name)
      return true
    }
    const isFolder = found.isDirectory()
    const why = reasonFor(folder.rules, name, path, isFolder, folder.inside)
    if (isFolder) {
      const known = folder.folders.get(name)
      // Same inode: its own watches report changes inside it.
      if (known && known.identity === identityOf(found) && !why) return true
      tree.forget(folder, name)
      if (why && !isLookedInto(path, why)) tree.leaveOut(folder, `${name}/`, why)
      else if (!tryWalk(folder, name, why)) tree.leaveOut(folder, `${name}/`, 'unreadable')
      return true
    }
    if (folder.folders.has(name) || folder.leftOut.has(`${name}/`)) tree.forget(folder, name)
    const isPlain = found.isFile() || found.isSymbolicLink()
    const kept = why ?? (isPlain ? store(folder, name, path, found.isSymbolicLink()) : 'special')
    if (kept === 'captured') tree.unleave(folder, name)
    else {
      tree.forget(folder, name)
      if (kept !== 'gone') tree.leaveOut(folder, name, kept)
    }
    return true
  }

  function partial(paths: Iterable<BytePath>): boolean {
    for (const path of [...paths, ...linked].sort()) {
      const parts = path.split('/')
      let folder = tree.root
      for (const [depth, part] of parts.entries()) {
        const inner = folder.folders.get(part)
        if (depth < parts.length - 1 && inner) {
          folder = inner
          continue
        }
        if (!entry(folder, part)) return false
        break
      }
    }
    toolFiles()
    return true
  }

  function file(path: BytePath): void {
    const parts = path.split('/')
    const name = parts.pop() ?? ''
    let folder = tree.root
    for (const part of parts) {
      const inner = folder.folders.get(part)
      // Check known folders too: one may have become a link that leads out of the workspace.
      if (!isRealFolder(joined(folder.path, part))) {
        if (inner) tree.removeFolder(inner)
        return
      }
      folder = inner ?? tree.addFolder(folder, part)
    }
    const found = lstatSync(at(path), { bigint: true, throwIfNoEntry: false })
    if (!found) return tree.removeFile(folder, name)
    const known = folder.files.get(name)
    if (known && !known.isRacy && isUnchanged(known, found)) return
    const kept = store(folder, name, path, found.isSymbolicLink())
    if (kept !== 'captured') tree.removeFile(folder, name)
  }

  function isRealFolder(path: BytePath): boolean {
    return lstatSync(at(path), { throwIfNoEntry: false })?.isDirectory() ?? false
  }

  function isLeftOut(path: BytePath): boolean {
    const parts = path.split('/')
    const name = parts.pop() ?? ''
    let folder: Folder | undefined = tree.root
    let at = tree.root.rules
    let inside: LeftOut | null = null
    if (!at) throw new Error('the workspace has not been scanned yet')
    for (const part of parts) {
      folder = folder?.folders.get(part)
      const inner = joined(at.folder, part)
      if (!folder?.rules && rules.reason(at, part, true, inside) !== null) return true
      at = folder?.rules ?? rules.below(at, inner, null, null)
      inside = folder?.inside ?? null
    }
    const found = lstatSync(onDisk(`${root}/${path}`), { throwIfNoEntry: false })
    const why = rules.reason(at, name, false, inside)
    if (why === 'hidden' && options.tracked.has(path)) return (found?.size ?? 0) > maxFileBytes
    return why !== null || (found?.size ?? 0) > maxFileBytes
  }

  /** Scans tool-written files separately, because the walk does not reach those in left-out folders. */
  function toolFiles(): void {
    for (const path of options.toolWritten()) file(path)
  }

  return {
    full() {
      seen = 0
      tree.root.identity = identityOf(lstatSync(at(''), { bigint: true }))
      walk(tree.root, null, null)
      toolFiles()
    },
    partial,
    isLeftOut,
  }
}

/** Inodes are reused, often immediately; a birth time is not. */
function identityOf({ ino, birthtimeNs }: BigIntStats): string {
  return `${ino}:${birthtimeNs}`
}

/** Returns false for folders that are in the tree only because of tool-written files. */
function isWalked(folder: Folder | undefined): boolean {
  return folder?.rules != null && folder.inside === null
}

class TooLarge extends Error {}
class NotAFile extends Error {}

function isUnchanged(known: FileEntry, found: BigIntStats): boolean {
  return (
    known.mtime === found.mtimeNs &&
    known.ctime === found.ctimeNs &&
    known.ino === found.ino &&
    BigInt(known.size) === found.size &&
    BigInt(known.mode) === found.mode &&
    isLink(known.mode) === found.isSymbolicLink()
  )
}

function readBytes(file: number, expected: number, limit: number): Buffer {
  // One extra byte shows whether the file has grown.
  let bytes = Buffer.allocUnsafe(expected + 1)
  let length = 0
  for (;;) {
    const wanted = bytes.length - length
    const read = readSync(file, bytes, length, wanted, length)
    length += read
    if (read < wanted) return bytes.subarray(0, length)
    if (length > limit) throw new TooLarge()
    if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.allocUnsafe(bytes.length)])
  }
}
