import type { FileEntry } from '../manifest/manifest.ts'
import { type BytePath, joined } from './byte-path.ts'
import type { FolderRules, LeftOut } from './ignore-rules.ts'

/** The known state of the workspace's files, in memory: the manifest as a tree. */

export interface Folder {
  name: BytePath
  path: BytePath
  parent: Folder | null
  files: Map<BytePath, FileEntry>
  folders: Map<BytePath, Folder>
  leftOut: Map<BytePath, LeftOut>
  rules: FolderRules | null
  /** Why the folder is left out, if we scan it anyway. */
  inside: LeftOut | null
  /** Distinguishes the folder from one that replaces it. */
  identity: string
  /** The id of its tree object; null when it must be rebuilt. */
  tree: string | null
}

export interface FolderTree {
  root: Folder
  fileCount(): number
  leftOutCount(): number
  /** Files whose permissions differ from those of a new file. */
  oddModes: ReadonlyMap<BytePath, number>
  setFile(folder: Folder, name: BytePath, entry: FileEntry): void
  removeFile(folder: Folder, name: BytePath): void
  addFolder(parent: Folder, name: BytePath): Folder
  removeFolder(folder: Folder): void
  setLeftOut(folder: Folder, leftOut: Map<BytePath, LeftOut>): void
  leaveOut(folder: Folder, name: BytePath, why: LeftOut): void
  /** The entry is no longer left out. */
  unleave(folder: Folder, name: BytePath): void
  /** The entry no longer exists. */
  forget(folder: Folder, name: BytePath): void
  find(path: BytePath): FileEntry | null
  findFolder(path: BytePath): Folder | null
  /** Returns the changes since the last call: the files' rows, and the paths whose content or mode changed. */
  takeChanges(): { rows: Map<BytePath, FileEntry | null>; contents: Set<BytePath> }
  /** Returns true if the checkpoint's record may have changed since the last call. */
  takeRecordChanged(): boolean
}

const IS_EXECUTABLE = 0o100
const TYPE = 0o170000
const LINK = 0o120000

export function gitMode(mode: number): '120000' | '100755' | '100644' {
  if ((mode & TYPE) === LINK) return '120000'
  return mode & IS_EXECUTABLE ? '100755' : '100644'
}

export function isLink(mode: number): boolean {
  return (mode & TYPE) === LINK
}

export function permissions(mode: number): number {
  return mode & 0o777
}

/** The permissions a new file gets. */
export function usualPermissions(mode: number, umask: number): number {
  return (mode & IS_EXECUTABLE ? 0o777 : 0o666) & ~umask
}

export function createFolderTree(options: {
  umask: number
  onFolderGone?: (path: BytePath) => void
}): FolderTree {
  const root = newFolder('', null)
  const oddModes = new Map<BytePath, number>()
  let rows = new Map<BytePath, FileEntry | null>()
  let contents = new Set<BytePath>()
  let files = 0
  let leftOutCount = 0
  let recordChanged = true

  function touch(folder: Folder): void {
    for (let at: Folder | null = folder; at && at.tree !== null; at = at.parent) at.tree = null
    // A parent folder may have been recreated while one below kept its tree.
    for (let at = folder.parent; at; at = at.parent) at.tree = null
  }

  function noteMode(path: BytePath, mode: number | null): void {
    const isOdd =
      mode !== null && !isLink(mode) && permissions(mode) !== usualPermissions(mode, options.umask)
    if (isOdd && mode !== null) {
      if (oddModes.get(path) === permissions(mode)) return
      oddModes.set(path, permissions(mode))
      recordChanged = true
    } else if (oddModes.delete(path)) recordChanged = true
  }

  const isBare = (folder: Folder) =>
    folder.files.size === 0 && folder.folders.size === 0 && folder.leftOut.size === 0

  function removeFile(folder: Folder, name: BytePath): void {
    if (!folder.files.delete(name)) return
    files--
    const path = joined(folder.path, name)
    rows.set(path, null)
    contents.add(path)
    noteMode(path, null)
    touch(folder)
    if (isBare(folder)) recordChanged = true
  }

  function removeFolder(folder: Folder): void {
    for (const name of folder.files.keys()) removeFile(folder, name)
    for (const inner of folder.folders.values()) removeFolder(inner)
    leftOutCount -= folder.leftOut.size
    folder.leftOut.clear()
    folder.parent?.folders.delete(folder.name)
    if (folder.parent) touch(folder.parent)
    recordChanged = true
    options.onFolderGone?.(folder.path)
  }

  function unleave(folder: Folder, key: BytePath): void {
    if (!folder.leftOut.delete(key)) return
    leftOutCount--
    recordChanged = true
  }

  function findFolder(path: BytePath): Folder | null {
    let at: Folder | undefined = root
    for (const part of path === '' ? [] : path.split('/')) at = at?.folders.get(part)
    return at ?? null
  }

  return {
    root,
    oddModes,
    fileCount: () => files,
    leftOutCount: () => leftOutCount,
    removeFile,
    removeFolder,
    findFolder,
    setFile(folder, name, entry) {
      const before = folder.files.get(name)
      if (!before && isBare(folder)) recordChanged = true
      const path = joined(folder.path, name)
      folder.files.set(name, entry)
      rows.set(path, entry)
      if (!before) files++
      noteMode(path, entry.mode)
      if (before?.oid === entry.oid && gitMode(before.mode) === gitMode(entry.mode)) {
        if (before.mode !== entry.mode) contents.add(path)
        return
      }
      contents.add(path)
      touch(folder)
    },
    addFolder(parent, name) {
      const folder = newFolder(name, parent)
      parent.folders.set(name, folder)
      touch(parent)
      recordChanged = true
      return folder
    },
    setLeftOut(folder, leftOut) {
      if (isSame(folder.leftOut, leftOut)) return
      leftOutCount += leftOut.size - folder.leftOut.size
      folder.leftOut = leftOut
      recordChanged = true
    },
    leaveOut(folder, name, why) {
      if (folder.leftOut.get(name) === why) return
      if (!folder.leftOut.has(name)) leftOutCount++
      folder.leftOut.set(name, why)
      recordChanged = true
    },
    forget(folder, name) {
      removeFile(folder, name)
      const inner = folder.folders.get(name)
      if (inner) removeFolder(inner)
      unleave(folder, name)
      unleave(folder, `${name}/`)
    },
    unleave,
    find(path) {
      const cut = path.lastIndexOf('/')
      const folder = findFolder(cut < 0 ? '' : path.slice(0, cut))
      return folder?.files.get(path.slice(cut + 1)) ?? null
    },
    takeChanges() {
      const taken = { rows, contents }
      rows = new Map()
      contents = new Set()
      return taken
    },
    takeRecordChanged() {
      const changed = recordChanged
      recordChanged = false
      return changed
    },
  }
}

function newFolder(name: BytePath, parent: Folder | null): Folder {
  return {
    name,
    path: parent ? joined(parent.path, name) : '',
    parent,
    files: new Map(),
    folders: new Map(),
    leftOut: new Map(),
    rules: null,
    inside: null,
    identity: '',
    tree: null,
  }
}

function isSame(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  if (a.size !== b.size) return false
  for (const [key, value] of a) if (b.get(key) !== value) return false
  return true
}
