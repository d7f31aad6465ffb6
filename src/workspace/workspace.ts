import { existsSync, realpathSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import type { FilesThen } from '../core/work-sessions.ts'
import { readBundle, writeBundle } from './bundle.ts'
import { type BytePath, fromShown, shownPath, toBytePath } from './byte-path.ts'
import { type Commit, commitBody, readCommit } from './commit.ts'
import { diffFiles, type FileDiff, type FileDifference, listDifferences } from './diff.ts'
import {
  type CheckpointCommand,
  createFileOperations,
  type EditCommand,
  type EditOutcome,
  type MadeCheckpoint,
  type RestoreReport,
  shownReport,
} from './file-operations.ts'
import { filesIn, withEdits } from './files-then.ts'
import { hashesOf } from './hashes.ts'
import type { LeftOut } from './ignore-rules.ts'
import { createKnownFiles } from './known-files.ts'
import { openManifest, type ToolWritten } from './manifest.ts'
import { matchPaths } from './match-paths.ts'
import type { MirrorPlace } from './pack-mirror.ts'
import { readRecord } from './record.ts'
import { conversationsOnDisk, copyFolder, readBranches } from './repository.ts'
import { listRescued, type RescuedFile } from './rescued.ts'
import { foresee } from './restore.ts'
import { planRestore } from './restore-plan.ts'
import { lockRoot } from './root-lock.ts'
import { openSharedObjects, type SharedObjects } from './shared-objects.ts'
import { type Collected, collect, joinPacks, type StoreSize, sizeOfStore } from './store-upkeep.ts'
import { createTrackedFiles, noTrackedFiles } from './tracked-files.ts'
import { type TreeThen, treeThen } from './tree-then.ts'
import { compareTrees, entryIn, FOLDER_MODE } from './trees.ts'

/** One workspace's files: looked at, kept, compared and put back. One thing at a time, in the order of the calls. */
export interface Workspace {
  /** Stores what is there now without a commit, so that the first checkpoint need not. */
  lookAhead(): Promise<void>
  /** Keeps what is there now as a commit (W1); durable when it answers. */
  checkpoint(command: CheckpointCommand): Promise<MadeCheckpoint>
  /** A commit with the files of another one. */
  merge(command: { of: string; parents: string[]; label: string; time: number }): Promise<string>
  /** What a restore would do. */
  preview(command: RestoreCommand): Promise<RestoreReport>
  /**
   * Restores files, relative to the safety checkpoint, and then takes a checkpoint if one is requested. After a crash
   * the same call finishes it (W5).
   */
  restore(
    command: RestoreCommand & { safety: string; checkpointAfter?: { label: string; time: number } },
  ): Promise<RestoreReport & { made: MadeCheckpoint | null }>
  /** Takes back what that restore did, and nothing that others have done since. */
  undo(command: RestoreCommand & { safety: string }): Promise<RestoreReport>
  /** Writes those of these checkpoints that are here to a git bundle, and answers which. */
  writeBundle(file: string, checkpoints: string[]): Promise<string[]>
  /** Takes in a bundle, which must have these checkpoints. */
  readBundle(file: string, checkpoints: string[]): Promise<void>
  /** Which of these are neither in the checkpoint nor there now. */
  unknownPaths(target: string, paths: string[]): Promise<string[]>
  /** The files that differ; without `to`, from what is there now. */
  differences(from: string, to: string | null): Promise<FileDifference[]>
  diff(from: string, to: string | null, path: string | null): Promise<FileDiff[]>
  /** The files as they were then, and how they differ from what is there now. */
  files(then: FilesThen, wanted: { search: string; limit: number }): Promise<FoundFiles>
  /** One of them; null when it was not there. */
  file(then: FilesThen, path: string): Promise<{ file: FoundFile | null; difference: FileDiff | null }>
  leftOut(checkpoint: string): Promise<{ path: string; reason: LeftOut }[]>
  /** How many commits `tip` reaches and `base` does not. */
  countSince(base: string, tip: string): Promise<number>
  /**
   * Replaces or deletes one file for a tool. A file that no checkpoint has is kept by a checkpoint first (W10). `confirm` is
   * awaited while the workspace is locked, right before the file is touched: a worker that has lost its run stops there.
   */
  edit(command: EditCommand, confirm: (kept: MadeCheckpoint | null) => Promise<void>): Promise<EditOutcome>
  /** Looks at everything; answers what the watches should have told and did not. */
  verifyWatching(): Promise<string[]>
  /** Joins packs when there are many. */
  tidy(): Promise<void>
  /** SHA-256 of each file's bytes; null for what is not there, or leads out. */
  hashes(paths: readonly string[]): Promise<(string | null)[]>
  /** Whether these checkpoints are here. */
  has(checkpoints: string[]): Promise<boolean>
  /**
   * Drops what none of these reaches, nor any checkpoint made since then: its frame may not be stored yet. `removed` is how
   * many checkpoints the ledger has ever removed, for the next time.
   */
  collect(roots: readonly string[], since: number, removed: number): Promise<Collected>
  /** Takes over what a checkpoint knows of files that tools wrote: a copy made from it captures them too (W3). */
  adopt(checkpoint: string): Promise<void>
  /** Forgets a working copy whose folder has gone. */
  discard(): Promise<void>
  condition(): Promise<WorkspaceCondition>
  close(): Promise<void>
}

export interface RestoreCommand {
  target: string
  paths: string[] | null
}

export interface FoundFiles {
  /** How many there were. */
  total: number
  /** Those that were looked for, as many as were wanted. */
  paths: string[]
  changed: FileDifference[]
  unsure: { path: string; reason: string }[]
}

export interface FoundFile {
  bytes: number
  /** Null when it is no text, or too much of it. */
  text: string | null
  isBinary: boolean
}

export interface WorkspaceCondition {
  files: number
  leftOut: number
  isWatching: boolean
  watchedFolders: number
  /** When the watches missed something, and what. */
  watchingFailed: string | null
  store: StoreSize
  rescued: RescuedFile[]
  /** How many checkpoints the ledger had ever removed when objects were last collected. */
  checkpointsRemoved: number
  /** How many packs object storage holds; 0 without one. */
  mirroredPacks: number
}

export interface WorkspaceOptions {
  /** The project's folder, or that of a copy. */
  root: string
  dataDir: string
  /** The conversation whose working copy it is; null for the project itself. */
  copy?: string | null | undefined
  include: readonly string[]
  exclude: readonly string[]
  maxFileBytes: number
  umask: number
  /** Where programs are found. */
  path: string
  watch: boolean
  /** Where the objects are kept besides this folder, for processes that have another. */
  mirror?: MirrorPlace | null | undefined
  /** A file to lock while files are changed, the same for every process that works on this folder. */
  rootLock?: string | undefined
  /** How many files there must be for that. */
  watchedFrom?: number | undefined
  onProgress?: ((files: number) => void) | undefined
  /** Files that were found to have changed after the answer was given, and are kept. */
  onRescued?: ((files: RestoreReport['rescued']) => void) | undefined
  /** For tests: a restore is planned and nothing touched yet. */
  onPlanned?: (() => void) | undefined
}

const MANY_PACKS = 20
const MAX_SHOWN_BYTES = 1024 * 1024

export function openWorkspace(
  options: WorkspaceOptions,
  /** Without them it has its own. */
  given?: SharedObjects,
): Workspace {
  const { copy = null } = options
  const shared = given ?? openSharedObjects(options)
  const { store, objects, git, mirror, inTurn } = shared
  const root = toBytePath(realpathSync(options.root))
  const dataDir = realpathSync(options.dataDir)
  const cookies = join(dataDir, 'tmp', 'cookies')
  const rescued = join(dataDir, 'rescued')
  const manifest = copy === null ? shared.manifest : openManifest(join(dataDir, 'manifest.db'), copy)
  const own = ownFolder(realpathSync(options.root), dataDir)
  // A working copy has no repository of its own, and one above it is not the project's.
  const tracked =
    copy === null
      ? createTrackedFiles(realpathSync(options.root), { path: options.path, scratch: join(dataDir, 'tmp') })
      : noTrackedFiles
  const known = createKnownFiles({ ...options, root, own, cookies, manifest, objects, tracked })
  let isRebuilt = false
  /** Each working copy has its own: the paths in it are relative to its root. */
  const scratch = copy === null ? join(dataDir, 'tmp') : join(dataDir, 'tmp', copy)
  const operations = createFileOperations({
    git,
    root,
    dataDir,
    scratch,
    rescued,
    umask: options.umask,
    isStored,
    toolWritten: known.toolWritten,
    beforeWrite: known.beforeWrite,
    checkpoint,
    inTurn,
    onRescued: options.onRescued,
  })

  /** A manifest that was lost knows nothing of what tools have overwritten; the checkpoints do. */
  async function rebuild(): Promise<void> {
    isRebuilt = true
    if (!manifest.isNew) return
    const here = conversationsOnDisk(dataDir).filter((id) =>
      copy === null ? !existsSync(copyFolder(dataDir, id)) : id === copy,
    )
    const heads = here.flatMap((id) => Object.values(readBranches(dataDir, id)?.heads ?? {}))
    const written: ToolWritten[] = []
    for (const head of new Set(heads)) {
      const commit = (await git.read(head)) && (await readCommit(git, head))
      if (commit) written.push(...(await readRecord(git, commit.record)).toolWritten)
    }
    for (const file of written.sort((a, b) => a.at - b.at)) manifest.noteToolWritten(file)
  }

  /** The manifest's lock keeps other processes out; what fails leaves nothing half-known (W7). */
  function locked<T>(work: () => Promise<T>, how: 'quickly' | 'durably' = 'quickly'): Promise<T> {
    return inTurn(async () => {
      manifest.lock(how)
      try {
        if (!isRebuilt) {
          await rebuild()
          operations.recover()
        }
        known.load()
        const result = await work()
        manifest.commit()
        return result
      } catch (error) {
        manifest.rollback()
        objects.discard()
        known.forget()
        throw error
      }
    })
  }

  /** Files are changed by one process at a time, whatever data folder it has. */
  async function alone<T>(work: () => Promise<T>): Promise<T> {
    const release = options.rootLock === undefined ? () => {} : lockRoot(options.rootLock)
    try {
      return await work()
    } finally {
      release()
    }
  }

  function isStored(oid: string): boolean {
    if (objects.has(oid)) return true
    // Another process may have stored it.
    objects.reload()
    return objects.has(oid)
  }

  /** Which of these are here, or can be fetched. */
  async function storedAmong(ids: readonly string[]): Promise<string[]> {
    for (const id of ids) if (!isStored(id)) await mirror?.find(id)
    return ids.filter(isStored)
  }

  async function storeNow() {
    const now = await known.storeNow()
    await objects.flush()
    return now
  }

  async function then(checkpoint: string): Promise<TreeThen> {
    const found = await treeThen(git, objects, await readCommit(git, checkpoint), known.toolWritten())
    await objects.flush()
    return found
  }

  async function treeOf(checkpoint: string | null): Promise<string> {
    return checkpoint === null ? (await storeNow()).tree : (await then(checkpoint)).tree
  }

  async function treeAt({ checkpointId, edits }: FilesThen) {
    const tree = await treeOf(checkpointId)
    if (edits.length === 0) return { tree, unsure: [] }
    const edited = await withEdits(git, objects, tree, edits)
    await objects.flush()
    return edited
  }

  /** Keeps the commit from being collected until its frame is stored. */
  async function storeCommit(commit: Commit): Promise<string> {
    const id = objects.put('commit', commitBody(commit))
    await objects.flush()
    manifest.noteCommit(id, Date.now())
    return id
  }

  async function countChanged(
    last: Commit | null,
    before: string | null,
    now: { tree: string; changed: number },
  ): Promise<number> {
    if (!last) return known.counts().files
    if (last.tree === now.tree) return 0
    return last.tree === before ? now.changed : (await compareTrees(git, last.tree, now.tree)).length
  }

  async function planFor(now: Pick<Commit, 'tree' | 'record'>, { target, paths }: RestoreCommand) {
    return await planRestore({ git, now, target: await then(target), paths: paths?.map(fromShown) ?? null })
  }

  async function checkpoint({ label, parents: wanted, time }: CheckpointCommand): Promise<MadeCheckpoint> {
    // A store that was deleted, or left on another machine, must not keep anybody from working on.
    const parents = await storedAmong(wanted)
    const stamped = known.stamp(time)
    const before = known.lastTree()
    const now = await known.storeNow()
    const id = await storeCommit({ ...now, parents, label, time: stamped })
    const { files, leftOut } = known.counts()
    const last = parents[0] === undefined ? null : await readCommit(git, parents[0])
    const isSame = last?.tree === now.tree && last.record === now.record
    return { id, files, changed: await countChanged(last, before, now), excluded: leftOut, isSame }
  }

  return {
    lookAhead: () => locked(async () => void (await storeNow())),
    checkpoint: (command) => locked(() => checkpoint(command)),
    merge: ({ of, parents, label, time }) =>
      locked(async () => {
        const { tree, record } = await readCommit(git, of)
        return await storeCommit({ tree, record, parents: await storedAmong(parents), label, time })
      }),
    preview: (command) =>
      locked(async () => {
        const plan = await planFor(await storeNow(), command)
        return shownReport(foresee(root, plan), [])
      }),
    restore: (command) =>
      locked(async () => {
        const { safety, checkpointAfter } = command
        const plan = await planFor(await readCommit(git, safety), command)
        options.onPlanned?.()
        const { report, made } = await alone(() =>
          operations.apply(plan, async () =>
            checkpointAfter ? await checkpoint({ ...checkpointAfter, parents: [safety] }) : null,
          ),
        )
        return { ...report, made }
      }),
    undo: ({ target, safety, paths }) =>
      locked(async () => {
        const plan = await planFor(await then(target), { target: safety, paths })
        return (await alone(() => operations.apply(plan, async () => null))).report
      }),
    writeBundle: (file, checkpoints) =>
      locked(async () => {
        const known = await storedAmong(checkpoints)
        const { path } = options
        await writeBundle(shared, { checkpoints: known, scratch: join(dataDir, 'tmp'), file, path })
        return known
      }),
    readBundle: (file, checkpoints) =>
      locked(() => readBundle(shared, { file, checkpoints, path: options.path }), 'durably'),
    unknownPaths: (target, paths) =>
      locked(async () => {
        const trees = [(await then(target)).tree, (await storeNow()).tree]
        const isKnown = async (path: string) =>
          (await Promise.all(trees.map((tree) => entryIn(git, tree, fromShown(path))))).some((found) => found)
        const known = await Promise.all(paths.map(isKnown))
        return paths.filter((_, index) => !known[index])
      }),
    differences: (from, to) =>
      locked(async () => await listDifferences(git, store, await treeOf(from), await treeOf(to))),
    diff: (from, to, path) =>
      locked(async () => await diffFiles(git, store, await treeOf(from), await treeOf(to), path)),
    files: (then, { search, limit }) =>
      locked(async () => {
        const { tree, unsure } = await treeAt(then)
        const all = (await filesIn(git, tree)).map(shownPath)
        const isNow = then.checkpointId === null && then.edits.length === 0
        const changed = isNow ? [] : await listDifferences(git, store, tree, (await storeNow()).tree)
        return { total: all.length, paths: matchPaths(all, search, limit), changed, unsure }
      }),
    file: (then, path) =>
      locked(async () => {
        const { tree } = await treeAt(then)
        const entry = await entryIn(git, tree, fromShown(path))
        const [difference] = await diffFiles(git, store, tree, (await storeNow()).tree, path)
        const found = entry && entry.mode !== FOLDER_MODE ? await git.read(entry.oid) : null
        return { file: found && shownFile(found.body), difference: difference ?? null }
      }),
    leftOut: (checkpoint) =>
      inTurn(async () => {
        const { record } = await readCommit(git, checkpoint)
        return (await readRecord(git, record)).leftOut.map(({ path, reason }) => ({
          path: shownPath(path),
          reason,
        }))
      }),
    countSince: (base, tip) =>
      inTurn(async () =>
        Number((await git.run(store, ['rev-list', '--count', `${base}..${tip}`])).toString()),
      ),
    edit: (command, confirm) => locked(() => alone(() => operations.edit(command, confirm)), 'durably'),
    verifyWatching: () => locked(async () => (await known.verifyWatching()).map(shownPath)),
    tidy: () =>
      locked(async () => {
        if (objects.packCount() < MANY_PACKS) return
        await mirror?.push()
        await joinPacks({ git, store })
        objects.reload()
        mirror?.adopt()
      }),
    hashes: (paths) => inTurn(async () => hashesOf(realpathSync(options.root), paths)),
    has: (checkpoints) => locked(async () => (await storedAmong(checkpoints)).length === checkpoints.length),
    collect: (roots, since, removed) =>
      locked(async () => {
        const now = await storeNow()
        await mirror?.pull()
        objects.reload()
        const reached = new Set(roots)
        const noted = [...manifest.commitsSince(since), ...((await mirror?.recentCommits()) ?? [])]
        const recent = [...new Set(noted)].filter((id) => !reached.has(id))
        const known = [...reached, ...recent].filter((id) => objects.has(id))
        const overwritten = manifest.overwritten().filter((id) => objects.has(id))
        const others = [now.tree, now.record, ...overwritten]
        const collected = await collect({ git, store, checkpoints: known, others })
        if (await mirror?.wasCollected(removed)) mirror?.adopt()
        else await mirror?.replace(removed)
        manifest.setNote('generation', String(Number(manifest.note('generation') ?? 0) + 1))
        // What was kept only because it is recent may have to go the next time.
        if (recent.length === 0) manifest.setNote('checkpoints_removed', String(removed))
        return collected
      }),
    adopt: (checkpoint) =>
      locked(async () => {
        const { record } = await readCommit(git, checkpoint)
        for (const { path } of (await readRecord(git, record)).toolWritten) {
          manifest.noteToolWritten({ path, wasLeftOut: true, before: null, at: Date.now() })
        }
        known.forget()
      }, 'durably'),
    discard: () => inTurn(async () => manifest.drop()),
    condition: () =>
      inTurn(async () => ({
        ...known.counts(),
        watchingFailed: manifest.note('watching_failed'),
        store: sizeOfStore(store),
        rescued: listRescued(rescued),
        checkpointsRemoved: Number(manifest.note('checkpoints_removed') ?? 0),
        mirroredPacks: mirror?.count() ?? 0,
      })),
    close: () =>
      inTurn(async () => {
        operations.settle()
        known.forget()
        if (copy !== null) manifest.close()
        if (!given) shared.close()
      }),
  }
}

/** Our folder as seen from the root, when it lies in it. */
function ownFolder(root: string, dataDir: string): BytePath | null {
  const path = relative(root, dataDir)
  return path === '' || path === '..' || path.startsWith(`..${sep}`) ? null : toBytePath(path)
}

function shownFile(body: Buffer): FoundFile {
  const isBinary = body.subarray(0, MAX_SHOWN_BYTES).includes(0)
  const text = isBinary || body.length > MAX_SHOWN_BYTES ? null : body.toString()
  return { bytes: body.length, text, isBinary }
}
