import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { type BytePath, onDisk, shownPath } from './byte-path.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { createFolderTree, type Folder, type FolderTree } from './folder-tree.ts'
import { createIgnoreRules } from './ignore-rules.ts'
import type { Manifest, ToolWritten } from './manifest.ts'
import type { ObjectStore } from './object-store.ts'
import { storeRecord } from './record.ts'
import { createScan, MAX_KEPT_BYTES, type Scan } from './scan.ts'
import type { TrackedFiles } from './tracked-files.ts'
import { storeTree } from './trees.ts'
import { createFolderWatch, type FolderWatch } from './watch.ts'

/** What we know of the workspace's files, and how it is kept up to date. Only to be used while the manifest is locked. */
export interface KnownFiles {
  /** What is there now, as a tree and its record; durable with the store's next flush. */
  storeNow(): Promise<StoredNow>
  /** The tree that was stored last, unless it is not known what has changed since. */
  lastTree(): string | null
  /** A time in milliseconds, later than any before it: what came first must be known for sure. */
  stamp(time: number): number
  /** A tool is about to write this file: one that the rules leave out is kept first (W3). */
  beforeWrite(path: BytePath): Promise<void>
  /** Looks at everything; answers what the watches should have told and did not. */
  verifyWatching(): Promise<BytePath[]>
  toolWritten(): ToolWritten[]
  /** Reads the manifest, if that has not been done or another process has collected objects since. */
  load(): void
  /** Something went wrong: nothing is known any more. */
  forget(): void
  counts(): { files: number; leftOut: number; watchedFolders: number; isWatching: boolean }
}

export interface StoredNow {
  tree: string
  record: string
  /** How many files differ from the tree that was stored before it. */
  changed: number
}

export interface KnownFilesOptions {
  root: BytePath
  /** Our own folder, relative to the root, or null when it lies elsewhere. */
  own: BytePath | null
  /** A folder of ours that can be watched. */
  cookies: string
  include: readonly string[]
  exclude: readonly string[]
  maxFileBytes: number
  umask: number
  watch: boolean
  /** How many files there must be. Fewer are looked at faster than watches are worth. */
  watchedFrom?: number | undefined
  onProgress?: ((files: number) => void) | undefined
  manifest: Manifest
  objects: ObjectStore
  tracked: TrackedFiles
}

/** A tool would overwrite a file that is too large to be kept first. */
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
    // Another process may have noted what its tools wrote, or joined packs.
    if (manifest.hasChangedElsewhere()) readToolWritten()
    // Packs that have gone, by whomever: what was stored may not be any more.
    const isWhole = objects.refresh()
    if (state && now === generation && isWhole) return
    forget()
    generation = now
    readToolWritten()
    const files = createFolderTree({ umask, onFolderGone: (path) => watching?.remove(path) })
    for (const { path, entry } of manifest.files()) {
      // A store that has lost objects must not be believed to have them.
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

  /** What is there, stored, if it is something that can be. */
  function keepBefore(at: BytePath): ToolWritten['before'] {
    const found = lstatSync(path(at), { throwIfNoEntry: false })
    if (found && found.size > MAX_KEPT_BYTES) {
      throw new TooLargeToKeep(`${shownPath(at)} is too large to be kept before it is overwritten`)
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
    // Another commit, or another branch: hidden files may have joined the project, or left it.
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
      // Overflown meanwhile, which shows: then everything is looked at the next time anyway.
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
