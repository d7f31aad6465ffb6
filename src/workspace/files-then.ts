import { applyPatch } from 'diff'
import type { FileEditThen } from '../core/work-sessions.ts'
import type { Git } from '../git/git.ts'
import { type BytePath, joined, shownPath, toBytePath } from './byte-path.ts'
import type { ObjectStore } from './object-store.ts'
import { entryIn, FOLDER_MODE, readTree, type TreeEntry, treeWith } from './trees.ts'

/** The files in the middle of a run: its checkpoint, plus the edits that tools had made by then. */
export interface EditedTree {
  tree: string
  /** Files with an edit that can't be applied: they are shown as they were before it. */
  unsure: { path: string; reason: string }[]
}

const NEW_FILE_MODE = '100644'
const LINK_MODE = '120000'

export async function withEdits(
  git: Git,
  objects: ObjectStore,
  tree: string,
  edits: readonly FileEditThen[],
): Promise<EditedTree> {
  const changed = new Map<BytePath, TreeEntry | null>()
  const unsure = new Map<BytePath, string>()
  for (const edit of edits) {
    // An imported edit may be of a file outside the project.
    if (!isInProject(edit.path)) continue
    const path = toBytePath(edit.path)
    // After an edit without a diff the content is unknown, until a later edit deletes the file.
    if (unsure.has(path) && edit.change !== 'deleted') continue
    const before = changed.has(path) ? (changed.get(path) ?? null) : await entryIn(git, tree, path)
    const after = await edited(git, objects, before, edit)
    if (typeof after === 'string') unsure.set(path, after)
    else {
      unsure.delete(path)
      put(changed, path, after)
    }
  }
  return {
    tree: await treeWith(git, objects, tree, changed),
    unsure: [...unsure].map(([path, reason]) => ({ path: shownPath(path), reason })),
  }
}

/** False for paths that no tree can have. */
function isInProject(path: string): boolean {
  return path.split('/').every((name) => !['', '.', '..', '.git'].includes(name.toLowerCase()))
}

/** A file that replaces a folder replaces everything in it; a file in a folder replaces a file of the folder's name. */
function put(changed: Map<BytePath, TreeEntry | null>, path: BytePath, entry: TreeEntry | null): void {
  if (entry) {
    for (const other of changed.keys()) if (other.startsWith(`${path}/`)) changed.delete(other)
    for (let cut = path.indexOf('/'); cut > 0; cut = path.indexOf('/', cut + 1)) {
      if (changed.get(path.slice(0, cut))) changed.set(path.slice(0, cut), null)
    }
  }
  changed.set(path, entry)
}

/** Returns the file after the edit, or the reason why it is unknown. */
async function edited(
  git: Git,
  objects: ObjectStore,
  before: TreeEntry | null,
  { change, diff }: FileEditThen,
): Promise<TreeEntry | null | string> {
  if (change === 'deleted') return null
  if (before?.mode === LINK_MODE) return 'it is a link, and its target was changed'
  if (diff === null) return 'its diff was too large to be stored'
  const old = before && before.mode !== FOLDER_MODE ? await git.read(before.oid) : null
  const text = applyPatch(change === 'added' ? '' : (old?.body.toString() ?? ''), diff, {
    autoConvertLineEndings: false,
  })
  if (text === false) return 'its diff does not apply to the previous content'
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
