import type { Git } from '../git/git.ts'
import type { BytePath } from './byte-path.ts'
import type { Commit } from './commit.ts'
import { gitMode, permissions } from './folder-tree.ts'
import type { ToolWritten } from './manifest.ts'
import type { ObjectStore } from './object-store.ts'
import { withFiles } from './trees.ts'

/** A checkpoint's files as far as they are known by now: with those that it had left out and tools have overwritten since. */
export interface TreeThen {
  tree: string
  record: string
  /** Their permissions. */
  overwritten: ReadonlyMap<BytePath, number>
  /** Files that would have been left out, and that tools have made since. */
  made: ReadonlySet<BytePath>
}

export async function treeThen(
  git: Git,
  objects: ObjectStore,
  { tree, record, time }: Commit,
  toolWritten: readonly ToolWritten[],
): Promise<TreeThen> {
  const later = toolWritten.filter((file) => file.wasLeftOut && file.at > time)
  const before = later.flatMap(({ path, before: was }) => (was ? [{ path, was }] : []))
  const files = new Map(before.map(({ path, was }) => [path, { mode: gitMode(was.mode), oid: was.oid }]))
  return {
    tree: (await withFiles(git, objects, tree, files)) ?? tree,
    record,
    overwritten: new Map(before.map(({ path, was }) => [path, permissions(was.mode)])),
    made: new Set(later.flatMap(({ path, before: was }) => (was ? [] : path))),
  }
}
