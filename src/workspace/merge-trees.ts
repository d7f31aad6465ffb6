import { randomBytes } from 'node:crypto'
import { lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Git, GitFailed, runGit } from '../git/git.ts'
import { type BytePath, onDisk } from './byte-path.ts'
import { readCommit } from './commit.ts'
import type { ObjectStore } from './object-store.ts'
import { compareTrees, entryIn, FOLDER_MODE, type TreeEntry, treeWith } from './trees.ts'

export interface MergedTree {
  tree: string
  /** The files that the merge changes in `ours`. */
  changed: BytePath[]
  /** Files that both sides changed in different ways. */
  conflicts: BytePath[]
}

/** Commits from which it follows what each side has changed. */
export interface MergeBases {
  /** The files that both sides began with. */
  origin: string
  /** Earlier adoptions, oldest first: what was adopted, and our files before and after it. */
  adoptions: readonly { theirs: string; before: string; after: string }[]
}

export interface MergeCommand extends MergeBases {
  ours: string
  theirs: string
  /** The folder of `theirs`: a file that is there, but not in the commit, was left out and not deleted. */
  theirRoot: BytePath
  /** True takes the file of `theirs` in a conflict; otherwise the file of `ours` stays. */
  isTheirsPreferred: boolean
}

type Entry = TreeEntry | null

/** Larger files are merged as a whole: they conflict if both sides have changed them. */
const MAX_MERGED_BYTES = 1024 * 1024
const MERGE_MS = 10_000

/**
 * Merges two commits file by file. Names are not followed through renames: a renamed file is a deleted and an added one, so that
 * no file changes because another one resembles it.
 */
export async function mergeTrees(
  { git, objects, store }: { git: Git; objects: ObjectStore; store: string },
  command: MergeCommand,
  { scratch, path }: { scratch: string; path: string },
): Promise<MergedTree> {
  const { ours, theirs, theirRoot, isTheirsPreferred } = command
  const treeOf = async (id: string) => (await readCommit(git, id)).tree
  const [own, other, origin] = [await treeOf(ours), await treeOf(theirs), await treeOf(command.origin)]
  const adoptions: { theirs: string; before: string; after: string }[] = []
  for (const one of command.adoptions) {
    const [their, before, after] = [
      await treeOf(one.theirs),
      await treeOf(one.before),
      await treeOf(one.after),
    ]
    if (!(await isUndone(before, after))) adoptions.push({ theirs: their, before, after })
  }
  const files = new Map<BytePath, Entry>()
  const conflicts = new Set<BytePath>()
  for (const { path: file, from: mine, to: their } of await compareTrees(git, own, other)) {
    const base = await baseOf(file)
    if (isSame(their, base) || (their === null && isOnDisk(file))) continue
    if (isSame(mine, base)) {
      files.set(file, their)
      continue
    }
    const merged = await mergedFile(mine, base, their)
    if (merged) {
      files.set(file, merged)
      continue
    }
    conflicts.add(file)
    if (isTheirsPreferred) files.set(file, their)
  }
  await keepWhatIsInTheWay()
  const tree = await treeWith(git, objects, own, files)
  return { tree, changed: [...files.keys()].sort(), conflicts: [...conflicts].sort() }

  /**
   * True if each file that the adoption changed is as it was before. If only some are, a person has reverted them, and they are
   * not adopted again.
   */
  async function isUndone(before: string, after: string): Promise<boolean> {
    const changed = await compareTrees(git, before, after)
    for (const { path: file, from } of changed) if (!isSame(await fileIn(own, file), from)) return false
    return changed.length > 0
  }

  /** The file from which both sides count. An adoption that left the file alone does not count. */
  async function baseOf(file: BytePath): Promise<Entry> {
    let base = await fileIn(origin, file)
    for (const adoption of adoptions) {
      const adopted = await fileIn(adoption.theirs, file)
      const [before, after] = [await fileIn(adoption.before, file), await fileIn(adoption.after, file)]
      const isLeft = isSame(before, after) && !isSame(after, adopted)
      if (!isLeft) base = adopted
    }
    return base
  }

  async function fileIn(tree: string, file: BytePath): Promise<Entry> {
    const entry = await entryIn(git, tree, file)
    return entry?.mode === FOLDER_MODE ? null : entry
  }

  function isOnDisk(file: BytePath): boolean {
    try {
      lstatSync(onDisk(`${theirRoot}/${file}`))
      return true
    } catch {
      return false
    }
  }

  /** A file stays where the other side needs a folder of that name, and a folder that would not become empty. */
  async function keepWhatIsInTheWay(): Promise<void> {
    for (const [file, entry] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (!entry) continue
      const isBlocked = (await isBelowFile(file)) || (await hasFilesBelow(file))
      if (!isBlocked) continue
      files.delete(file)
      conflicts.add(file)
    }
  }

  async function isBelowFile(file: BytePath): Promise<boolean> {
    for (let cut = file.lastIndexOf('/'); cut > 0; cut = file.lastIndexOf('/', cut - 1)) {
      const above = file.slice(0, cut)
      const set = files.get(above)
      if (set !== undefined ? set !== null : (await fileIn(own, above)) !== null) return true
    }
    return false
  }

  async function hasFilesBelow(file: BytePath): Promise<boolean> {
    const entry = await entryIn(git, own, file)
    if (entry?.mode !== FOLDER_MODE) return false
    const below = await compareTrees(git, entry.oid, null)
    return below.some(({ path: name }) => files.get(`${file}/${name}`) !== null)
  }

  /** Merges the lines of a text that both sides have changed; null if that is not possible. */
  async function mergedFile(mine: Entry, base: Entry, their: Entry): Promise<Entry> {
    if (!mine || !base || !their) return null
    if (![mine, base, their].every(({ mode }) => mode === '100644' || mode === '100755')) return null
    const mode = their.mode === base.mode ? mine.mode : their.mode
    if (mine.oid === base.oid || mine.oid === their.oid) return { mode, oid: their.oid }
    if (their.oid === base.oid) return { mode, oid: mine.oid }
    const bodies: Buffer[] = []
    for (const { oid } of [mine, base, their]) bodies.push((await git.read(oid))?.body ?? Buffer.alloc(0))
    if (bodies.some((body) => body.length > MAX_MERGED_BYTES || body.includes(0))) return null
    const folder = join(scratch, `merge-${randomBytes(6).toString('hex')}`)
    mkdirSync(folder, { recursive: true })
    try {
      const names = ['mine', 'base', 'theirs'].map((name) => join(folder, name))
      for (const [index, name] of names.entries()) writeFileSync(name, bodies[index] ?? '')
      const args = ['merge-file', '-p', '-q', ...names]
      const body = await runGit({ gitDir: store, args, path, timeoutMs: MERGE_MS })
      return { mode, oid: objects.put('blob', body) }
    } catch (error) {
      // Git exits with the number of conflicts.
      if (error instanceof GitFailed) return null
      throw error
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

function isSame(one: Entry, other: Entry): boolean {
  return one?.oid === other?.oid && one?.mode === other?.mode
}
