import type { Git } from '../git/git.ts'
import type { BytePath } from './byte-path.ts'
import { usualPermissions } from './folder-tree.ts'
import { type CheckpointRecord, readRecord, whyLeftOut } from './record.ts'
import type { TreeThen } from './tree-then.ts'
import { compareTrees, entryIn, type TreeEntry } from './trees.ts'

/** The steps of a restore, decided before any file is touched (W4). */
export interface RestorePlan {
  actions: Action[]
  /** Folders to create: the target has them without files. */
  makeFolders: BytePath[]
  /** Folders to remove if they are empty: the target does not have them. */
  removeFolders: BytePath[]
  skipped: Skipped[]
  isKnownFolder(path: BytePath): Promise<boolean>
}

/** Replaces the safety checkpoint's entry `from` with the target's entry `to`. Null means no file. */
export interface Action {
  path: BytePath
  from: TreeEntry | null
  to: TreeEntry | null
  permissions: number
  /** The new bytes, if the store does not have them. */
  body?: Buffer
}

export interface Skipped {
  path: BytePath
  reason: string
}

export interface PlanInput {
  git: Git
  /** The current files. */
  now: Pick<TreeThen, 'tree' | 'record'>
  target: TreeThen
  /** Only these files, and the files in these folders; null for all. */
  paths: readonly BytePath[] | null
}

export const LEFT_OUT_THEN = 'the checkpoint left it out, so it is not changed'

export async function planRestore({ git, now, target, paths }: PlanInput): Promise<RestorePlan> {
  const [changes, then, here] = await Promise.all([
    compareTrees(git, now.tree, target.tree),
    readRecord(git, target.record),
    readRecord(git, now.record),
  ])
  const isWanted = wantedBy(paths)
  const leftOutFor = whyLeftOut(then)
  const actions: Action[] = []
  const skipped: Skipped[] = []
  const isPlanned = new Set<BytePath>()
  const permissionsThen = (path: BytePath, entry: TreeEntry) =>
    target.overwritten.get(path) ?? permissionsIn(then, path, entry)

  function plan(path: BytePath, from: TreeEntry | null, to: TreeEntry | null, permissions: number): void {
    isPlanned.add(path)
    actions.push({ path, from, to, permissions })
  }

  for (const { path, from, to } of changes.filter((change) => isWanted(change.path))) {
    if (to) plan(path, from, to, permissionsThen(path, to))
    else if (!target.made.has(path) && leftOutFor(path) !== null)
      skipped.push({ path, reason: LEFT_OUT_THEN })
    else plan(path, from, null, 0)
  }
  // Files with the same bytes but different permissions.
  for (const path of new Set([...then.modes.keys(), ...here.modes.keys(), ...target.overwritten.keys()])) {
    if (isPlanned.has(path) || !isWanted(path)) continue
    const entry = await fileIn(git, target.tree, path)
    if (!entry || entry.mode === '120000' || !(await fileIn(git, now.tree, path))) continue
    const wanted = permissionsThen(path, entry)
    if (wanted !== permissionsIn(here, path, entry)) plan(path, entry, entry, wanted)
  }
  const known = foldersNamedIn(then)
  const isKnownFolder = async (path: BytePath) =>
    known.has(path) || (await isFolderIn(git, target.tree, path))
  const removeFolders: BytePath[] = []
  for (const path of here.emptyFolders) {
    if (isWanted(path) && !(await isKnownFolder(path))) removeFolders.push(path)
  }
  return {
    actions: actions.sort((a, b) => (a.path < b.path ? -1 : 1)),
    makeFolders: then.emptyFolders.filter(isWanted),
    removeFolders,
    skipped,
    isKnownFolder,
  }
}

function permissionsIn(record: CheckpointRecord, path: BytePath, entry: TreeEntry): number {
  const isExecutable = entry.mode === '100755'
  return record.modes.get(path) ?? usualPermissions(isExecutable ? 0o100 : 0, record.umask)
}

function wantedBy(paths: readonly BytePath[] | null): (path: BytePath) => boolean {
  if (!paths) return () => true
  return (path) => paths.some((name) => path === name || path.startsWith(`${name}/`))
}

function foldersNamedIn({ leftOut, emptyFolders }: CheckpointRecord): Set<BytePath> {
  const folders = new Set(emptyFolders)
  for (const path of [...leftOut.map((entry) => entry.path), ...emptyFolders]) {
    for (let cut = path.indexOf('/'); cut >= 0; cut = path.indexOf('/', cut + 1))
      folders.add(path.slice(0, cut))
  }
  return folders
}

async function fileIn(git: Git, tree: string, path: BytePath): Promise<TreeEntry | null> {
  const found = await entryIn(git, tree, path)
  return found && found.mode !== '40000' ? found : null
}

async function isFolderIn(git: Git, tree: string, path: BytePath): Promise<boolean> {
  return (await entryIn(git, tree, path))?.mode === '40000'
}
