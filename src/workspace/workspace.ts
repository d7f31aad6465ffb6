import { existsSync, mkdirSync, readdirSync, realpathSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { createAside } from './aside.ts'
import { type BytePath, fromShown, shownPath, toBytePath } from './byte-path.ts'
import { type Commit, commitBody, readCommit } from './commit.ts'
import { diffFiles, type FileDiff, type FileDifference, listDifferences } from './diff.ts'
import { createGit, type Git } from './git.ts'
import type { LeftOut } from './ignore-rules.ts'
import { createKnownFiles } from './known-files.ts'
import { openManifest } from './manifest.ts'
import { clearLeftovers, createObjectStore, type ObjectStore } from './object-store.ts'
import { readRecord } from './record.ts'
import { prepareStore } from './repository.ts'
import { restore } from './restore.ts'
import { planRestore, type Skipped } from './restore-plan.ts'
import { type Collected, collect, joinPacks, type StoreSize, sizeOfStore } from './store-upkeep.ts'
import { compareTrees } from './trees.ts'

/** One workspace's files: looked at, kept, compared and put back. One thing at a time, in the order of the calls. */
export interface Workspace {
  /** Keeps what is there now as a commit (W1); durable when it answers. */
  checkpoint(command: CheckpointCommand): Promise<MadeCheckpoint>
  /** A commit with the files of another one. */
  merge(command: { of: string; parents: string[]; label: string; time: number }): Promise<string>
  /** What a restore would do. */
  preview(command: RestoreCommand): Promise<RestoreReport>
  /** Puts files back, from what the safety checkpoint has. After a crash the same call finishes it (W5). */
  restore(command: RestoreCommand & { safety: string }): Promise<RestoreReport>
  /** The files that differ; without `to`, from what is there now. */
  differences(from: string, to: string | null): Promise<FileDifference[]>
  diff(from: string, to: string | null, path: string | null): Promise<FileDiff[]>
  leftOut(checkpoint: string): Promise<{ path: string; reason: LeftOut }[]>
  /** How many commits lie behind one and not behind the other. */
  countSince(base: string, tip: string): Promise<number>
  /** A tool is about to write this file: what no checkpoint would have is kept first (W3). */
  beforeWrite(path: string): Promise<void>
  /** Looks at everything; answers what the watches should have told and did not. */
  verifyWatching(): Promise<string[]>
  /** Joins packs when there are many. */
  tidy(): Promise<void>
  /** Drops what none of these reaches. */
  collect(roots: readonly string[]): Promise<Collected>
  condition(): Promise<WorkspaceCondition>
  close(): Promise<void>
}

export interface CheckpointCommand {
  label: string
  parents: string[]
  time: number
}

export interface MadeCheckpoint {
  id: string
  files: number
  /** Against its first parent. */
  changed: number
  excluded: number
}

export interface RestoreCommand {
  target: string
  paths: string[] | null
}

export interface RestoreReport {
  restored: string[]
  deleted: string[]
  skipped: { path: string; reason: string }[]
}

export interface WorkspaceCondition {
  files: number
  leftOut: number
  isWatching: boolean
  watchedFolders: number
  /** When the watches missed something, and what. */
  watchingFailed: string | null
  store: StoreSize
  /** Files that could not go back to their place. */
  rescued: string[]
}

export interface WorkspaceOptions {
  /** The project's folder. */
  root: string
  dataDir: string
  include: readonly string[]
  exclude: readonly string[]
  maxFileBytes: number
  umask: number
  /** Where programs are found. */
  path: string
  watch: boolean
  /** How many files there must be for that. */
  watchedFrom?: number | undefined
  onProgress?: ((files: number) => void) | undefined
  /** For tests: a restore is planned and nothing touched yet. */
  onPlanned?: (() => void) | undefined
}

const MANY_PACKS = 50

export function openWorkspace(options: WorkspaceOptions): Workspace {
  const root = toBytePath(realpathSync(options.root))
  const dataDir = realpathSync(options.dataDir)
  const store = prepareStore(dataDir)
  clearLeftovers(join(store, 'objects'))
  const cookies = join(dataDir, 'tmp', 'cookies')
  mkdirSync(cookies, { recursive: true })
  const rescued = join(dataDir, 'rescued')
  const manifest = openManifest(join(dataDir, 'manifest.db'))
  const objects = createObjectStore(join(store, 'objects'))
  const git = withRecent(createGit({ store, path: options.path }), objects)
  const own = ownFolder(realpathSync(options.root), dataDir)
  const known = createKnownFiles({ ...options, root, own, cookies, manifest, objects })
  let turn: Promise<unknown> = Promise.resolve()

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = turn.then(work, work)
    turn = next.catch(() => {})
    return next
  }

  /** The manifest's lock keeps other processes out; what fails leaves nothing half-known (W7). */
  function locked<T>(work: () => Promise<T>, how: 'quickly' | 'durably' = 'quickly'): Promise<T> {
    return inTurn(async () => {
      manifest.lock(how)
      try {
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

  function isStored(oid: string): boolean {
    if (objects.has(oid)) return true
    // Another process may have stored it.
    objects.reload()
    return objects.has(oid)
  }

  async function storeNow() {
    const now = await known.storeNow()
    await objects.flush()
    return now
  }

  async function treeOf(checkpoint: string | null): Promise<string> {
    return checkpoint === null ? (await storeNow()).tree : (await readCommit(git, checkpoint)).tree
  }

  async function countChanged(
    parent: string | undefined,
    before: string | null,
    now: { tree: string; changed: number },
  ) {
    if (parent === undefined) return known.counts().files
    const { tree } = await readCommit(git, parent)
    if (tree === now.tree) return 0
    return tree === before ? now.changed : (await compareTrees(git, tree, now.tree)).length
  }

  async function planFor(now: Pick<Commit, 'tree' | 'record'>, { target, paths }: RestoreCommand) {
    return await planRestore({
      git,
      now,
      target: await readCommit(git, target),
      paths: paths?.map(fromShown) ?? null,
      toolWritten: known.toolWritten(),
    })
  }

  return {
    checkpoint: ({ label, parents: wanted, time }) =>
      locked(async () => {
        // A store that was deleted, or left on another machine, must not keep anybody from working on.
        const parents = wanted.filter(isStored)
        const stamped = known.stamp(time)
        const before = known.lastTree()
        const now = await known.storeNow()
        const id = objects.put('commit', commitBody({ ...now, parents, label, time: stamped }))
        await objects.flush()
        const { files, leftOut } = known.counts()
        return { id, files, changed: await countChanged(parents[0], before, now), excluded: leftOut }
      }),
    merge: ({ of, parents, label, time }) =>
      locked(async () => {
        const { tree, record } = await readCommit(git, of)
        const id = objects.put('commit', commitBody({ tree, record, parents, label, time }))
        await objects.flush()
        return id
      }),
    preview: (command) =>
      locked(async () => {
        const { actions, skipped } = await planFor(await storeNow(), command)
        return {
          restored: actions.filter((action) => action.to).map((action) => shownPath(action.path)),
          deleted: actions.filter((action) => !action.to).map((action) => shownPath(action.path)),
          skipped: skipped.map(shownSkip),
        }
      }),
    restore: (command) =>
      locked(async () => {
        const plan = await planFor(await readCommit(git, command.safety), command)
        options.onPlanned?.()
        const aside = createAside({ folder: join(dataDir, 'tmp', 'restore'), rescued })
        const outcome = await restore({ git, root, aside, plan })
        aside.clear()
        return {
          restored: outcome.restored.map(shownPath),
          deleted: outcome.deleted.map(shownPath),
          skipped: outcome.skipped.map(shownSkip),
        }
      }),
    differences: (from, to) =>
      locked(async () => await listDifferences(git, store, await treeOf(from), await treeOf(to))),
    diff: (from, to, path) =>
      locked(async () => await diffFiles(git, store, await treeOf(from), await treeOf(to), path)),
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
    beforeWrite: (path) => locked(() => known.beforeWrite(fromShown(path)), 'durably'),
    verifyWatching: () => locked(async () => (await known.verifyWatching()).map(shownPath)),
    tidy: () =>
      locked(async () => {
        if (objects.packCount() < MANY_PACKS) return
        await joinPacks({ git, store })
        objects.reload()
      }),
    collect: (roots) =>
      locked(async () => {
        const now = await storeNow()
        objects.reload()
        const known = roots.filter((id) => objects.has(id))
        const collected = await collect({ git, store, checkpoints: known, others: [now.tree, now.record] })
        manifest.setNote('generation', String(Number(manifest.note('generation') ?? 0) + 1))
        return collected
      }),
    condition: () =>
      inTurn(async () => ({
        ...known.counts(),
        watchingFailed: manifest.note('watching_failed'),
        store: sizeOfStore(store),
        rescued: existsSync(rescued) ? readdirSync(rescued) : [],
      })),
    close: () =>
      inTurn(async () => {
        known.forget()
        git.close()
        manifest.close()
      }),
  }
}

/** What we have just written ourselves need not be asked for. */
function withRecent(git: Git, objects: ObjectStore): Git {
  return { ...git, read: async (oid) => objects.recent(oid) ?? (await git.read(oid)) }
}

/** Our folder as seen from the root, when it lies in it. */
function ownFolder(root: string, dataDir: string): BytePath | null {
  const path = relative(root, dataDir)
  return path === '' || path === '..' || path.startsWith(`..${sep}`) ? null : toBytePath(path)
}

function shownSkip({ path, reason }: Skipped): { path: string; reason: string } {
  return { path: shownPath(path), reason }
}
