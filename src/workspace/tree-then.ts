import type { Git } from '../git/git.ts'
import type { ToolWritten } from '../manifest/manifest.ts'
import type { BytePath } from './byte-path.ts'
import type { Commit } from './commit.ts'
import { gitMode, permissions } from './folder-tree.ts'
import type { ObjectStore } from './object-store.ts'
import { withFiles } from './trees.ts'

/** A checkpoint's files as known today: also those that it left out and that were saved when a tool overwrote them later. */
export interface TreeThen {
  tree: string
  record: string
  /** The overwritten files with their permissions. */
  overwritten: ReadonlyMap<BytePath, number>
  /** Files that tools have created since and that the checkpoint would have left out. */
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
