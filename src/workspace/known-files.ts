import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import type { Manifest, ToolWritten } from '../manifest/manifest.ts'
import { type BytePath, onDisk, shownPath } from './byte-path.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { createFolderTree, type Folder, type FolderTree } from './folder-tree.ts'
import { createIgnoreRules } from './ignore-rules.ts'
import type { ObjectStore } from './object-store.ts'
import { storeRecord } from './record.ts'
import { createScan, MAX_KEPT_BYTES, type Scan } from './scan.ts'
import type { TrackedFiles } from './tracked-files.ts'
import { storeTree } from './trees.ts'
import { createFolderWatch, type FolderWatch } from './watch.ts'

/** Keeps the known state of the workspace's files up to date. Use only while the manifest is locked. */
export interface KnownFiles {
  /** Stores the current files as a tree and its record; durable after the store's next flush. */
  storeNow(): Promise<StoredNow>
  /** The tree that was stored last; null when later changes are unknown. */
  lastTree(): string | null
  /** Returns a strictly increasing time in milliseconds, so that the order of changes is certain. */
  stamp(time: number): number
  /** Call before a tool writes this file: stores its content first if the rules leave it out (W3). */
  beforeWrite(path: BytePath): Promise<void>
  /** Does a full scan and returns the changes that the watches missed. */
  verifyWatching(): Promise<BytePath[]>
  toolWritten(): ToolWritten[]
  /** Reads the manifest, unless it has been read and no process has collected objects since. */
  load(): void
  /** Discards the known state after a failure. */
  forget(): void
  counts(): { files: number; leftOut: number; watchedFolders: number; isWatching: boolean }
}

export interface StoredNow {
  tree: string
  record: string
  /** The number of files that differ from the previously stored tree. */
  changed: number
}

export interface KnownFilesOptions {
  root: BytePath
  /** Our own folder, relative to the root; null when it is outside. */
  own: BytePath | null
  /** The folder for the watcher's own files. */
  cookies: string
  include: readonly string[]
  exclude: readonly string[]
  maxFileBytes: number
  umask: number
  watch: boolean
  /** The minimum number of files for watching; with fewer, a full scan is cheaper. */
  watchedFrom?: number | undefined
  onProgress?: ((files: number) => void) | undefined
  manifest: Manifest
  objects: ObjectStore
  tracked: TrackedFiles
}

/** A tool would overwrite a file that is too large to be saved first. */
export class TooLargeToKeep extends Error {}

const WATCHED_FROM = 200

export function createKnownFiles(options: KnownFilesOptions): KnownFiles {
  const { root, manifest, objects, umask } = options
  const rules = createIgnoreRules(options)
  let state: { files: FolderTree; scan: Scan } | null = null
  let watching: FolderWatch | null = null
  let toolWritten = new Map<BytePath, ToolWritten>()
  let generation: string | null = null
  let lastStamp = 0
  let record: string | null = null
  let lastTree: string | null = null

  function forget(): void {
    state = null
    record = null
    lastTree = null
    stopWatching()
  }

  function stopWatching(): void {
    watching?.close()
    watching = null
  }

  function load(): void {
    const now = manifest.note('generation')
    // Another process may have recorded files that its tools wrote, or joined packs.
    if (manifest.hasChangedElsewhere()) readToolWritten()
    // When packs were removed, objects may no longer be stored.
    const isWhole = objects.refresh()
    if (state && now === generation && isWhole) return
    forget()
    generation = now
    readToolWritten()
    const files = createFolderTree({ umask, onFolderGone: (path) => watching?.remove(path) })
    for (const { path, entry } of manifest.files()) {
      // Skip files whose objects the store has lost.
      if (objects.has(entry.oid)) files.setFile(folderAt(files, parentOf(path)), nameOf(path), entry)
    }
    files.takeChanges()
    const scan = createScan({
      root,
      own: options.own,
      tree: files,
      rules,
      objects,
      maxFileBytes: options.maxFileBytes,
      isToolWritten: (path) => toolWritten.has(path),
      toolWritten: () => toolWritten.keys(),
      tracked: options.tracked,
      onFolder: (path) => watching?.add(path),
      onProgress: options.onProgress,
    })
    state = { files, scan }
  }

  function readToolWritten(): void {
    toolWritten = new Map(manifest.toolWritten().map((file) => [file.path, file]))
    for (const { at } of toolWritten.values()) lastStamp = Math.max(lastStamp, at)
    record = null
  }

  /** Stores the current file or link; null for any other entry. */
  function keepBefore(at: BytePath): ToolWritten['before'] {
    const found = lstatSync(path(at), { throwIfNoEntry: false })
    if (found && found.size > MAX_KEPT_BYTES) {
      throw new TooLargeToKeep(`${shownPath(at)} is too large to be saved before it is overwritten`)
    }
    const bytes = found?.isFile()
      ? readFileSync(path(at))
      : found?.isSymbolicLink()
        ? Buffer.from(readlinkSync(path(at), 'latin1'), 'latin1')
        : null
    return found && bytes ? { oid: objects.put('blob', bytes), mode: found.mode } : null
  }

  function stamp(time: number): number {
    lastStamp = Math.max(time, lastStamp + 1)
    return lastStamp
  }

  function known() {
    if (!state) throw new Error('the manifest has not been read')
    return state
  }

  async function look(): Promise<void> {
    // A commit or a change of branch may have added hidden files to the project, or removed them.
    if (await options.tracked.refresh()) {
      forget()
      load()
    }
    const hints = (await watching?.hints()) ?? null
    if (!hints || !known().scan.partial(hints)) lookAtAll()
  }

  function lookAtAll(): void {
    const { files, scan } = known()
    const isWatched = options.watch && manifest.note('watching_failed') === null
    if (isWatched && files.fileCount() >= (options.watchedFrom ?? WATCHED_FROM)) {
      watching ??= createFolderWatch({ root, cookies: options.cookies })
      watching.restart()
    }
    scan.full()
  }

  function path(relative: BytePath): string | Buffer {
    return onDisk(`${root}/${relative}`)
  }

  return {
    load,
    forget,
    toolWritten: () => [...toolWritten.values()],
    lastTree: () => lastTree,
    stamp,
    async storeNow() {
      await look()
      const { files } = known()
      const { rows, contents } = files.takeChanges()
      manifest.save(rows)
      const tree = storeTree(objects, files.root)
      if (tree === null) throw new Error('the workspace has no tree')
      if (files.takeRecordChanged() || record === null) {
        record = storeRecord(objects, files, [...toolWritten.values()], umask)
      }
      lastTree = tree
      return { tree, record, changed: contents.size }
    },
    async beforeWrite(at) {
      if (toolWritten.has(at)) return
      await options.tracked.refresh()
      const { files, scan } = known()
      if (!files.root.rules) lookAtAll()
      const wasLeftOut = !files.find(at) && scan.isLeftOut(at)
      const before = wasLeftOut ? keepBefore(at) : null
      await objects.flush()
      const file = { path: at, wasLeftOut, before, at: stamp(Date.now()) }
      manifest.noteToolWritten(file)
      toolWritten.set(at, file)
      record = null
    },
    async verifyWatching() {
      if (!watching) return []
      await look()
      const { files, scan } = known()
      manifest.save(files.takeChanges().rows)
      scan.full()
      const { rows, contents } = files.takeChanges()
      manifest.save(rows)
      await objects.flush()
      lastTree = null
      const late = await watching.hints()
      // `late` is null after an overflow; then the next look is a full scan anyway.
      const missed = late ? [...contents].filter((at) => !isHinted(late, at)) : []
      if (missed.length > 0) {
        const when = new Date().toISOString()
        manifest.setNote('watching_failed', `${when}: ${missed.slice(0, 10).map(shownPath).join(', ')}`)
        stopWatching()
      } else if (!late || !scan.partial(late)) lookAtAll()
      return missed
    },
    counts: () => ({
      files: state?.files.fileCount() ?? 0,
      leftOut: state?.files.leftOutCount() ?? 0,
      watchedFolders: watching?.folderCount() ?? 0,
      isWatching: watching !== null,
    }),
  }
}

function folderAt(files: FolderTree, path: BytePath): Folder {
  let at = files.root
  for (const part of path === '' ? [] : path.split('/'))
    at = at.folders.get(part) ?? files.addFolder(at, part)
  return at
}

function isHinted(hints: ReadonlySet<BytePath>, path: BytePath): boolean {
  for (let at = path; at !== ''; at = parentOf(at)) if (hints.has(at)) return true
  return false
}
