import { applyPatch } from 'diff'
import type { FileEditThen } from '../core/work-sessions.ts'
import { type BytePath, joined, shownPath, toBytePath } from './byte-path.ts'
import type { Git } from './git.ts'
import type { ObjectStore } from './object-store.ts'
import { entryIn, FOLDER_MODE, readTree, type TreeEntry, treeWith } from './trees.ts'

/** The files as they were in the middle of a run: its checkpoint, and what tools had done to them by then. */
export interface EditedTree {
  tree: string
  /** Files that an edit touched whose diff can't be carried out here: they are shown as they were before it. */
  unsure: { path: string; reason: string }[]
}

const NEW_FILE_MODE = '100644'

export async function withEdits(
  git: Git,
  objects: ObjectStore,
  tree: string,
  edits: readonly FileEditThen[],
): Promise<EditedTree> {
  const changed = new Map<BytePath, TreeEntry | null>()
  const unsure: EditedTree['unsure'] = []
  for (const edit of edits) {
    const path = toBytePath(edit.path)
    const before = changed.has(path) ? (changed.get(path) ?? null) : await entryIn(git, tree, path)
    const after = await edited(git, objects, before, edit)
    if (after === 'unsure')
      unsure.push({ path: shownPath(path), reason: 'its diff was too large to be kept' })
    else changed.set(path, after)
  }
  return { tree: await treeWith(git, objects, tree, changed), unsure }
}

async function edited(
  git: Git,
  objects: ObjectStore,
  before: TreeEntry | null,
  { change, diff }: FileEditThen,
): Promise<TreeEntry | null | 'unsure'> {
  if (change === 'deleted') return null
  if (diff === null) return 'unsure'
  const old = before && before.mode !== FOLDER_MODE ? await git.read(before.oid) : null
  const text = applyPatch(change === 'added' ? '' : (old?.body.toString() ?? ''), diff, {
    autoConvertLineEndings: false,
  })
  if (text === false) return 'unsure'
  const oid = objects.put('blob', Buffer.from(text))
  return { mode: before && before.mode !== FOLDER_MODE ? before.mode : NEW_FILE_MODE, oid }
}

/** Every file of a tree, in git's order. */
export async function filesIn(git: Git, tree: string): Promise<BytePath[]> {
  const found: BytePath[] = []
  async function walk(folder: BytePath, oid: string): Promise<void> {
    for (const [name, entry] of await readTree(git, oid)) {
      const path = joined(folder, name)
      if (entry.mode === FOLDER_MODE) await walk(path, entry.oid)
      else found.push(path)
    }
  }
  await walk('', tree)
  return found
}
