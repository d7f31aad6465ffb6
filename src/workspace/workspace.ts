import { existsSync, realpathSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import type { BlamedFile, BlameStep, FilesThen } from '../core/work-sessions.ts'
import { lockRoot } from '../file-lock/root-lock.ts'
import { openManifest, type ToolWritten } from '../manifest/manifest.ts'
import { type ApprovedFile, type ApprovedQuery, approvedFiles } from './approved-files.ts'
import { blameFile, type EarlierPaths, earlierPaths, type FirstName } from './blame.ts'
import { readBundle, writeBundle } from './bundle.ts'
import { type BytePath, fromShown, shownPath, toBytePath } from './byte-path.ts'
import { changeTimesOf } from './change-times.ts'
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
import { matchPaths } from './match-paths.ts'
import { type MergeBases, mergeTrees } from './merge-trees.ts'
import type { MirrorPlace } from './pack-mirror.ts'
import { readRecord, whyLeftOut, withModes } from './record.ts'
import { conversationsOnDisk, copyFolder, readBranches } from './repository.ts'
import { listRescued, type RescuedFile } from './rescued.ts'
import { foresee, isDiskFull } from './restore.ts'
import { planRestore } from './restore-plan.ts'
import { openSharedObjects, type SharedObjects } from './shared-objects.ts'
import { type Collected, collect, joinPacks, type StoreSize, sizeOfStore } from './store-upkeep.ts'
import { createTrackedFiles, noTrackedFiles } from './tracked-files.ts'
import { type TreeThen, treeThen } from './tree-then.ts'
import { compareTrees, entryIn, FOLDER_MODE } from './trees.ts'

/** Scans, saves, compares and restores one workspace's files. Runs one operation at a time, in the order of the calls. */
export interface Workspace {
  /** Stores the current files without a commit, so that the first checkpoint need not. */
  lookAhead(): Promise<void>
  /** Stores the current files as a commit (W1); durable when it returns. */
  checkpoint(command: CheckpointCommand): Promise<MadeCheckpoint>
  /** Creates a commit with the files of another one. */
  merge(command: { of: string; parents: string[]; label: string; time: number }): Promise<string>
  /**
   * Merges another commit and stores the result as a commit; changes no file. Lists the files that a restore to it would
   * change, and those that both sides had changed.
   */
  mergeFrom(
    command: MergeBases & {
      /** A checkpoint of this workspace; null merges into the current files. */
      ours: string | null
      theirs: string
      /** The folder of `theirs`. */
      theirRoot: string
      label: string
      time: number
      isTheirsPreferred: boolean
    },
  ): Promise<{ id: string; changed: string[]; conflicts: string[] }>
  /** Predicts the result of a restore. */
  preview(command: RestoreCommand): Promise<RestoreReport>
  /**
   * Restores files, relative to the safety checkpoint, and then takes a checkpoint if one is requested. After a crash
   * the same call finishes it (W5).
   */
  restore(
    command: RestoreCommand & { safety: string; checkpointAfter?: CheckpointAfter },
  ): Promise<RestoreReport & { made: MadeCheckpoint | null }>
  /** Undoes that restore, but no changes made since. */
  undo(command: RestoreCommand & { safety: string }): Promise<RestoreReport>
  /** Writes the checkpoints that are stored here to a git bundle, and returns their ids. */
  writeBundle(file: string, checkpoints: string[]): Promise<string[]>
  /** Imports a bundle, which must contain these checkpoints. */
  readBundle(file: string, checkpoints: string[]): Promise<void>
  /** Returns the paths that neither the checkpoint nor the current files have. */
  unknownPaths(target: string, paths: string[]): Promise<string[]>
  /** Those of these paths that are folders now, with files that are not among the paths. */
  occupied(paths: readonly string[]): Promise<string[]>
  /** Lists the files that differ; without `to`, compares with the current files. */
  differences(from: string, to: string | null): Promise<FileDifference[]>
  diff(from: string, to: string | null, path: string | null): Promise<FileDiff[]>
  /** Lists the files at that point, and how they differ from the current files. */
  files(then: FilesThen, wanted: { search: string; limit: number }): Promise<FoundFiles>
  /** Reads one file at that point; null when it did not exist. */
  file(then: FilesThen, path: string): Promise<{ file: FoundFile | null; difference: FileDiff | null }>
  /** The names that a file has had in these checkpoints (oldest first), newest name first, and where it first appears. */
  earlierPaths(checkpoints: readonly string[], path: string): Promise<EarlierPaths>
  /** The authors of the lines of a current file. */
  blame(steps: readonly BlameStep[], path: string, firstName: FirstName | null): Promise<BlamedFile>
  /** The files that these approvals have changed, with their contents. */
  approvedFiles(query: ApprovedQuery): Promise<ApprovedFile[]>
  leftOut(checkpoint: string): Promise<{ path: string; reason: LeftOut }[]>
  /** Counts the commits that `tip` reaches and `base` does not. */
  countSince(base: string, tip: string): Promise<number>
  /**
   * Replaces or deletes one file for a tool. If no checkpoint has the file, it takes one first (W10). `confirm` is awaited
   * while the workspace is locked, right before the file is touched: a worker that has lost its run stops there.
   */
  edit(command: EditCommand, confirm: (kept: MadeCheckpoint | null) => Promise<void>): Promise<EditOutcome>
  /** Does a full scan and returns the changes that the watches missed. */
  verifyWatching(): Promise<string[]>
  /** Joins packs when there are many. */
  tidy(): Promise<void>
  /** SHA-256 of each file's bytes; null for a path that does not exist or leads out of the workspace. */
  hashes(paths: readonly string[]): Promise<(string | null)[]>
  /** When the system last noted a change of each entry, in ms; null for a path that has none. Programs can't set it. */
  changeTimes(paths: readonly string[]): Promise<(number | null)[]>
  /** True if all these checkpoints are stored here. */
  has(checkpoints: string[]): Promise<boolean>
  /**
   * Drops objects that neither `roots` reach nor checkpoints made since `since`, whose frames may not be stored yet.
   * `removed` is the number of checkpoints that the ledger has ever removed; the next collection compares it.
   */
  collect(roots: readonly string[], since: number, removed: number): Promise<Collected>
  /** Imports a checkpoint's list of tool-written files, so that a copy made from it captures them too (W3). */
  adopt(checkpoint: string): Promise<void>
  /** Drops the manifest of a working copy. */
  discard(): Promise<void>
  condition(): Promise<WorkspaceCondition>
  close(): Promise<void>
}

export interface RestoreCommand {
  target: string
  paths: string[] | null
}

export interface CheckpointAfter {
  label: string
  time: number
  /** A checkpoint that the restored one was merged from. */
  merged?: string | undefined
}

export interface FoundFiles {
  /** The number of files at that point. */
  total: number
  /** The matching files, up to the limit. */
  paths: string[]
  changed: FileDifference[]
  unsure: { path: string; reason: string }[]
}

export interface FoundFile {
  bytes: number
  /** Null when the file is binary or too large. */
  text: string | null
  isBinary: boolean
}

export interface WorkspaceCondition {
  files: number
  leftOut: number
  isWatching: boolean
  watchedFolders: number
  /** When the watches missed changes, and which files; null if they have not. */
  watchingFailed: string | null
  store: StoreSize
  rescued: RescuedFile[]
  /** The number of checkpoints that the ledger had ever removed at the last collection. */
  checkpointsRemoved: number
  /** The number of packs in object storage; 0 without object storage. */
  mirroredPacks: number
}

export interface WorkspaceOptions {
  /** The folder of the project or of a working copy. */
  root: string
  dataDir: string
  /** The conversation whose working copy it is; null for the project itself. */
  copy?: string | null | undefined
  include: readonly string[]
  exclude: readonly string[]
  maxFileBytes: number
  umask: number
  /** The `PATH` used to find git. */
  path: string
  watch: boolean
  /** Object storage that also keeps the objects, for processes with another data folder. */
  mirror?: MirrorPlace | null | undefined
  /** The file to lock while files are changed; all processes that work on this folder use the same one. */
  rootLock?: string | undefined
  /** The minimum number of files for watching. */
  watchedFrom?: number | undefined
  onProgress?: ((files: number) => void) | undefined
  /** Called with files that were rescued after the operation had returned. */
  onRescued?: ((files: RestoreReport['rescued']) => void) | undefined
  /** How long a person waits for a blame; one that takes longer is refused. */
  blameMs?: number | undefined
  /** For tests: called when a restore is planned and no file has been touched yet. */
  onPlanned?: (() => void) | undefined
}

const MANY_PACKS = 20
const MAX_SHOWN_BYTES = 1024 * 1024
const BLAME_MS = 20_000

export function openWorkspace(
  options: WorkspaceOptions,
  /** Default: the workspace opens its own. */
  given?: SharedObjects,
): Workspace {
  const { copy = null, blameMs = BLAME_MS } = options
  const shared = given ?? openSharedObjects(options)
  const { store, objects, git, mirror, inTurn } = shared
  const root = toBytePath(realpathSync(options.root))
  const dataDir = realpathSync(options.dataDir)
  const cookies = join(dataDir, 'tmp', 'cookies')
  const rescued = join(dataDir, 'rescued')
  const manifest = copy === null ? shared.manifest : openManifest(join(dataDir, 'manifest.db'), copy)
  const own = ownFolder(realpathSync(options.root), dataDir)
  // A working copy has no repository of its own, and a repository above it is not the project's.
  const tracked =
    copy === null
      ? createTrackedFiles(realpathSync(options.root), { path: options.path, scratch: join(dataDir, 'tmp') })
      : noTrackedFiles
  const known = createKnownFiles({ ...options, root, own, cookies, manifest, objects, tracked })
  let isRebuilt = false
  /** Each working copy has its own, because the paths in it are relative to the copy's root. */
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

  /** Rebuilds a lost manifest from the checkpoints, which record the files that tools have overwritten. */
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

  /** Holds the manifest's lock against other processes; a failure discards all partial state (W7). */
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

  /** A full disk must not keep files from being rolled back: the manifest finds out again what they are. */
  function commitIfPossible(): void {
    try {
      manifest.commit()
    } catch (error) {
      if (!isDiskFull(error)) throw error
      manifest.rollback()
      known.forget()
    }
  }

  /** Only one process at a time changes files, even if processes have different data folders. */
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

  /** Returns the ids that are stored here or could be fetched. */
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

  /** Marks files that are not deleted: the later checkpoint leaves them out. */
  async function withLeftOut<T extends FileDifference>(files: T[], to: string | null): Promise<T[]> {
    if (!files.some(({ status }) => status === 'deleted')) return files
    const { record } = to === null ? await storeNow() : await readCommit(git, to)
    const leftOutFor = whyLeftOut(await readRecord(git, record))
    return files.map((file) => {
      const reason = file.status === 'deleted' ? leftOutFor(fromShown(file.path)) : null
      if (reason === null) return file
      const noDiff = 'diff' in file ? { diff: null } : {}
      return { ...file, additions: 0, deletions: 0, left_out: reason, ...noDiff }
    })
  }

  async function treeAt({ checkpointId, edits }: FilesThen) {
    const tree = await treeOf(checkpointId)
    if (edits.length === 0) return { tree, unsure: [] }
    const edited = await withEdits(git, objects, tree, edits)
    await objects.flush()
    return edited
  }

  /** Stores a commit and protects it from collection until its frame is stored. */
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
    // A store that was deleted or left on another machine must not block further work.
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

  /** Our record, with the permissions of the files that come from the other side. */
  async function recordWith(ours: Commit, theirs: Commit, changed: readonly BytePath[]): Promise<string> {
    const { modes } = await readRecord(git, theirs.record)
    const oid = await withModes(
      git,
      objects,
      ours.record,
      new Map(changed.map((path) => [path, modes.get(path)])),
    )
    await objects.flush()
    return oid
  }

  return {
    lookAhead: () => locked(async () => void (await storeNow())),
    checkpoint: (command) => locked(() => checkpoint(command)),
    merge: ({ of, parents, label, time }) =>
      locked(async () => {
        const { tree, record } = await readCommit(git, of)
        return await storeCommit({ tree, record, parents: await storedAmong(parents), label, time })
      }),
    mergeFrom: ({ ours: given, theirs, origin, adoptions, theirRoot, label, time, isTheirsPreferred }) =>
      locked(async () => {
        const parents: string[] = []
        const ours = given ?? (await storeCommit({ ...(await storeNow()), parents, label, time }))
        const commitsOf = (one: (typeof adoptions)[number]) => [one.theirs, one.before, one.after]
        const stored = new Set(await storedAmong([theirs, origin, ...adoptions.flatMap(commitsOf)]))
        const known = adoptions.filter((one) => commitsOf(one).every((id) => stored.has(id)))
        const sides = { ours, theirs, origin, adoptions: known, isTheirsPreferred }
        const command = { ...sides, theirRoot: toBytePath(theirRoot) }
        const where = { scratch: join(dataDir, 'tmp'), path: options.path }
        const { tree, changed, conflicts } = await mergeTrees(shared, command, where)
        const record = await recordWith(await readCommit(git, ours), await readCommit(git, theirs), changed)
        const id = await storeCommit({ tree, record, parents: [ours, theirs], label, time })
        return { id, changed: changed.map(shownPath), conflicts: conflicts.map(shownPath) }
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
          operations.apply(
            plan,
            async () => (checkpointAfter ? await checkpoint(afterRestore(checkpointAfter, safety)) : null),
            manifest.commit,
          ),
        )
        return { ...report, made }
      }),
    undo: ({ target, safety, paths }) =>
      locked(async () => {
        const plan = await planFor(await then(target), { target: safety, paths })
        return (await alone(() => operations.apply(plan, async () => null, commitIfPossible))).report
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
    occupied: (paths) =>
      locked(async () => {
        const { tree } = await storeNow()
        const own = new Set(paths)
        const found: string[] = []
        for (const path of paths) {
          const entry = await entryIn(git, tree, fromShown(path))
          if (entry?.mode !== FOLDER_MODE) continue
          const files = await filesIn(git, entry.oid)
          if (files.some((file) => !own.has(shownPath(`${fromShown(path)}/${file}`)))) found.push(path)
        }
        return found
      }),
    unknownPaths: (target, paths) =>
      locked(async () => {
        const trees = [(await then(target)).tree, (await storeNow()).tree]
        const isKnown = async (path: string) =>
          (await Promise.all(trees.map((tree) => entryIn(git, tree, fromShown(path))))).some((found) => found)
        const known = await Promise.all(paths.map(isKnown))
        return paths.filter((_, index) => !known[index])
      }),
    differences: (from, to) =>
      locked(async () => {
        const listed = await listDifferences(git, store, await treeOf(from), await treeOf(to))
        return await withLeftOut(listed, to)
      }),
    diff: (from, to, path) =>
      locked(async () => {
        const files = await diffFiles(git, store, await treeOf(from), await treeOf(to), path)
        return await withLeftOut(files, to)
      }),
    files: (then, { search, limit }) =>
      locked(async () => {
        const { tree, unsure } = await treeAt(then)
        const all = (await filesIn(git, tree)).map(shownPath)
        const isNow = then.checkpointId === null && then.edits.length === 0
        const changed = isNow
          ? []
          : await withLeftOut(await listDifferences(git, store, tree, (await storeNow()).tree), null)
        return { total: all.length, paths: matchPaths(all, search, limit), changed, unsure }
      }),
    file: (then, path) =>
      locked(async () => {
        const { tree } = await treeAt(then)
        const entry = await entryIn(git, tree, fromShown(path))
        const [difference] = await withLeftOut(
          await diffFiles(git, store, tree, (await storeNow()).tree, path),
          null,
        )
        const found = entry && entry.mode !== FOLDER_MODE ? await git.read(entry.oid) : null
        return { file: found && shownFile(found.body), difference: difference ?? null }
      }),
    // For a blame, only the current files need the lock: a long history would keep messages from starting.
    async earlierPaths(checkpoints, path) {
      const { tree } = await locked(() => storeNow())
      return await earlierPaths(git, checkpoints, path, tree, performance.now() + blameMs)
    },
    async blame(steps, path, firstName) {
      const { tree } = await locked(() => storeNow())
      return await blameFile(git, steps, path, tree, firstName, performance.now() + blameMs)
    },
    approvedFiles: (query) =>
      locked(async () => await approvedFiles(git, query, query.withCurrent ? await storeNow() : null)),
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
    changeTimes: (paths) => inTurn(async () => changeTimesOf(options.root, paths)),
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
        // Objects that were kept only because they are recent must be collected the next time.
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

/** The data folder's path relative to the root; null when it is outside. */
function ownFolder(root: string, dataDir: string): BytePath | null {
  const path = relative(root, dataDir)
  return path === '' || path === '..' || path.startsWith(`..${sep}`) ? null : toBytePath(path)
}

function shownFile(body: Buffer): FoundFile {
  const isBinary = body.subarray(0, MAX_SHOWN_BYTES).includes(0)
  const text = isBinary || body.length > MAX_SHOWN_BYTES ? null : body.toString()
  return { bytes: body.length, text, isBinary }
}

function afterRestore({ label, time, merged }: CheckpointAfter, safety: string): CheckpointCommand {
  return { label, time, parents: merged === undefined ? [safety] : [safety, merged] }
}
