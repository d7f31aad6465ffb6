import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createGit, type Git, runGit } from '../git/git.ts'
import type { BytePath } from './byte-path.ts'
import { commitBody, readCommit } from './commit.ts'
import type { ObjectStore } from './object-store.ts'
import { compareTrees, entryIn, type TreeEntry, treeWith } from './trees.ts'

export interface MergedTree {
  tree: string
  /** The files that the merge changes in `ours`. */
  changed: BytePath[]
  /** Files that both sides changed in different ways. */
  conflicts: BytePath[]
}

export interface MergeCommand {
  /** The last state that both sides had; null uses the last common ancestor of the commits. */
  base: string | null
  ours: string
  theirs: string
  /** True takes the file of `theirs` in a conflict; otherwise the file of `ours` stays. */
  isTheirsPreferred: boolean
}

const CONFLICTS = 1

/**
 * Merges two commits by git's rules, from their common ancestor. Git writes to a repository of its own that borrows our
 * objects, so that our store gets only the files of the result.
 */
export async function mergeTrees(
  { git, objects, store }: { git: Git; objects: ObjectStore; store: string },
  { base, ours, theirs, isTheirsPreferred }: MergeCommand,
  { scratch, path }: { scratch: string; path: string },
): Promise<MergedTree> {
  const repository = join(scratch, `merge-${randomBytes(6).toString('hex')}`)
  mkdirSync(join(repository, 'refs', 'heads'), { recursive: true })
  mkdirSync(join(repository, 'objects', 'info'), { recursive: true })
  writeFileSync(join(repository, 'HEAD'), 'ref: refs/heads/none\n')
  writeFileSync(join(repository, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = true\n')
  writeFileSync(join(repository, 'objects', 'info', 'alternates'), `${join(store, 'objects')}\n`)
  const merged = createGit({ store: repository, path })
  try {
    const [own, other] = [(await readCommit(git, ours)).tree, (await readCommit(git, theirs)).tree]
    const sides = base === null ? [ours, theirs] : await sidesFrom((await readCommit(git, base)).tree)
    const how = ['-z', '--name-only', '--no-messages', '--allow-unrelated-histories']
    const args = ['merge-tree', '--write-tree', ...how, ...sides]
    const output = await runGit({ gitDir: repository, args, path, okCode: CONFLICTS })
    const [result = '', ...unmerged] = output.toString('latin1').split('\0').slice(0, -1)
    const files = new Map<BytePath, TreeEntry | null>()
    for (const { path: file, to } of await compareTrees(merged, own, result)) files.set(file, to)
    const conflicts = new Set<BytePath>()
    for (const file of new Set(unmerged)) {
      const entries = [await entryIn(git, own, file), await entryIn(git, other, file)]
      if (entries.every((entry) => entry === null)) {
        // Git has renamed a file where the other side has a folder: everything there stays.
        const place = file.slice(0, file.lastIndexOf('~'))
        for (const name of files.keys())
          if (name === place || name.startsWith(`${place}/`)) files.delete(name)
        files.delete(file)
        conflicts.add(place)
        continue
      }
      conflicts.add(file)
      files.delete(file)
      if (isTheirsPreferred) files.set(file, entries[1] ?? null)
    }
    for (const entry of files.values()) {
      const blob = entry && !objects.has(entry.oid) ? await merged.read(entry.oid) : null
      if (blob) objects.put('blob', blob.body)
    }
    const tree = await treeWith(git, objects, own, files)
    return { tree, changed: [...files.keys()].sort(), conflicts: [...conflicts].sort() }

    /** Commits whose only common ancestor has this tree; `--merge-base` needs git 2.40. */
    async function sidesFrom(tree: string): Promise<[string, string]> {
      const root = await putCommit(tree)
      return [await putCommit(own, root), await putCommit(other, root)]
    }

    async function putCommit(tree: string, parent?: string): Promise<string> {
      const parents = parent === undefined ? [] : [parent]
      const input = commitBody({ tree, parents, label: 'merge', record: tree, time: 0 }).toString()
      const args = ['hash-object', '-t', 'commit', '-w', '--stdin']
      return (await runGit({ gitDir: repository, args, path, input })).toString().trim()
    }
  } finally {
    merged.close()
    rmSync(repository, { recursive: true, force: true })
  }
}
