import type { Git } from '../git/git.ts'
import { type BytePath, joined } from './byte-path.ts'
import { type Folder, gitMode } from './folder-tree.ts'
import type { ObjectStore } from './object-store.ts'

/** Git's tree objects: built from folders, read and compared. */

export interface TreeEntry {
  mode: string
  oid: string
}

export type TreeChange = { path: BytePath; from: TreeEntry | null; to: TreeEntry | null }

export const FOLDER_MODE = '40000'

/** Stores the folder's tree and returns its id; null when the folder is empty. Rebuilds only changed subtrees. */
export function storeTree(objects: ObjectStore, folder: Folder): string | null {
  if (folder.tree !== null) return folder.tree
  const entries: { key: string; mode: string; name: BytePath; oid: string }[] = []
  for (const [name, { mode, oid }] of folder.files)
    entries.push({ key: name, mode: gitMode(mode), name, oid })
  for (const inner of folder.folders.values()) {
    const oid = storeTree(objects, inner)
    // Git sorts folders as if their names ended in a slash.
    if (oid !== null) entries.push({ key: `${inner.name}/`, mode: FOLDER_MODE, name: inner.name, oid })
  }
  if (entries.length === 0 && folder.parent) return null
  entries.sort((a, b) => (a.key < b.key ? -1 : 1))
  folder.tree = objects.put('tree', treeBody(entries))
  return folder.tree
}

export function treeBody(entries: readonly { mode: string; name: BytePath; oid: string }[]): Buffer {
  const length = entries.reduce((sum, { mode, name }) => sum + mode.length + name.length + 22, 0)
  const body = Buffer.allocUnsafe(length)
  let at = 0
  for (const { mode, name, oid } of entries) {
    at += body.write(`${mode} ${name}\0`, at, 'latin1')
    at += body.write(oid, at, 'hex')
  }
  return body
}

export function parseTree(body: Buffer): Map<BytePath, TreeEntry> {
  const entries = new Map<BytePath, TreeEntry>()
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(32, at)
    const end = body.indexOf(0, space)
    const mode = body.toString('latin1', at, space)
    const name = body.toString('latin1', space + 1, end)
    entries.set(name, { mode, oid: body.toString('hex', end + 1, end + 21) })
    at = end + 21
  }
  return entries
}

/** All files that differ between two trees; only folders that differ are read. */
export async function compareTrees(git: Git, from: string, to: string | null): Promise<TreeChange[]> {
  const changes: TreeChange[] = []

  async function compare(path: BytePath, before: string | null, after: string | null): Promise<void> {
    if (before === after) return
    const [old, now] = await Promise.all([readTree(git, before), readTree(git, after)])
    const inner: Promise<void>[] = []
    for (const name of new Set([...old.keys(), ...now.keys()])) {
      const [a, b] = [old.get(name) ?? null, now.get(name) ?? null]
      if (a && b && a.oid === b.oid && a.mode === b.mode) continue
      const at = joined(path, name)
      const [fileBefore, fileAfter] = [fileIn(a), fileIn(b)]
      if (fileBefore || fileAfter) changes.push({ path: at, from: fileBefore, to: fileAfter })
      if (folderIn(a) !== null || folderIn(b) !== null) inner.push(compare(at, folderIn(a), folderIn(b)))
    }
    await Promise.all(inner)
  }

  await compare('', from, to)
  return changes.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** Parsed form of cached trees, which are compared many times. */
const parsed = new WeakMap<Buffer, ReadonlyMap<BytePath, TreeEntry>>()

export async function readTree(git: Git, oid: string | null): Promise<ReadonlyMap<BytePath, TreeEntry>> {
  if (oid === null) return new Map()
  const found = await git.read(oid)
  if (found?.type !== 'tree') throw new Error(`the tree ${oid} is missing`)
  const known = parsed.get(found.body)
  if (known) return known
  const entries = parseTree(found.body)
  parsed.set(found.body, entries)
  return entries
}

function fileIn(entry: TreeEntry | null): TreeEntry | null {
  return entry && entry.mode !== FOLDER_MODE ? entry : null
}

function folderIn(entry: TreeEntry | null): string | null {
  return entry?.mode === FOLDER_MODE ? entry.oid : null
}

/** The entry at a path in a tree, file or folder. */
export async function entryIn(git: Git, tree: string, path: BytePath): Promise<TreeEntry | null> {
  let at: TreeEntry = { mode: FOLDER_MODE, oid: tree }
  for (const part of path.split('/')) {
    if (at.mode !== FOLDER_MODE) return null
    const next = (await readTree(git, at.oid)).get(part)
    if (!next) return null
    at = next
  }
  return at
}

/** Stores the tree with these files set, or removed where the entry is null, and returns its id. */
export async function treeWith(
  git: Git,
  objects: ObjectStore,
  tree: string | null,
  files: ReadonlyMap<BytePath, TreeEntry | null>,
): Promise<string> {
  const entries = new Map(await readTree(git, tree))
  const inner = new Map<BytePath, Map<BytePath, TreeEntry | null>>()
  for (const [path, entry] of files) {
    const cut = path.indexOf('/')
    const name = cut < 0 ? path : path.slice(0, cut)
    if (cut >= 0) inner.set(name, (inner.get(name) ?? new Map()).set(path.slice(cut + 1), entry))
    else if (entry) entries.set(name, entry)
    else entries.delete(name)
  }
  for (const [name, below] of inner) {
    // A file takes the place of a folder whose files are removed.
    if (files.get(name) && [...below.values()].every((entry) => entry === null)) continue
    const oid = await treeWith(git, objects, folderIn(entries.get(name) ?? null), below)
    if (oid === EMPTY_TREE) entries.delete(name)
    else entries.set(name, { mode: FOLDER_MODE, oid })
  }
  return putTree(objects, entries)
}

/** Git's id of the empty tree. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

function putTree(objects: ObjectStore, entries: ReadonlyMap<BytePath, TreeEntry>): string {
  // Git sorts folders as if their names ended in a slash.
  const key = ([name, { mode }]: [string, TreeEntry]) => (mode === FOLDER_MODE ? `${name}/` : name)
  const sorted = [...entries].sort((a, b) => (key(a) < key(b) ? -1 : 1))
  return objects.put('tree', treeBody(sorted.map(([name, entry]) => ({ name, ...entry }))))
}

/** Stores the tree with these files added; skips paths that it already has or whose folder is a file in it. */
export async function withFiles(
  git: Git,
  objects: ObjectStore,
  tree: string | null,
  files: ReadonlyMap<BytePath, TreeEntry>,
): Promise<string | null> {
  if (files.size === 0) return tree
  const entries = new Map(await readTree(git, tree))
  const inner = new Map<BytePath, Map<BytePath, TreeEntry>>()
  for (const [path, entry] of files) {
    const cut = path.indexOf('/')
    const name = cut < 0 ? path : path.slice(0, cut)
    if (cut < 0) {
      if (!entries.has(name)) entries.set(name, entry)
    } else inner.set(name, (inner.get(name) ?? new Map()).set(path.slice(cut + 1), entry))
  }
  for (const [name, below] of inner) {
    const known = entries.get(name)
    if (known && known.mode !== FOLDER_MODE) continue
    const oid = await withFiles(git, objects, known?.oid ?? null, below)
    if (oid !== null) entries.set(name, { mode: FOLDER_MODE, oid })
  }
  return putTree(objects, entries)
}
