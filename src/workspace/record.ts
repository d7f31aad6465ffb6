import type { Git } from '../git/git.ts'
import type { ToolWritten } from '../manifest/manifest.ts'
import { type BytePath, fromShown, shownPath } from './byte-path.ts'
import { parentOf } from './entry-path.ts'
import type { Folder, FolderTree } from './folder-tree.ts'
import type { LeftOut } from './ignore-rules.ts'
import type { ObjectStore } from './object-store.ts'
import { readTree, treeBody } from './trees.ts'

/**
 * A checkpoint's data beyond its tree: the files that it left out and why (W3), empty folders, unusual permissions, and
 * content that tools overwrote and no checkpoint had. It is a separate tree that the commit names, so that git keeps it.
 */
export interface CheckpointRecord {
  leftOut: { path: BytePath; reason: LeftOut }[]
  emptyFolders: BytePath[]
  modes: Map<BytePath, number>
  umask: number
  toolWritten: ToolWritten[]
}

/** Returns why a checkpoint leaves out a path, or a folder above it; null if it doesn't. */
export function whyLeftOut({
  leftOut,
}: Pick<CheckpointRecord, 'leftOut'>): (path: BytePath) => LeftOut | null {
  const reasons = new Map(leftOut.map(({ path, reason }) => [path, reason]))
  return (path) => {
    for (let at = path; at !== ''; at = parentOf(at)) {
      // A folder's name ends in a slash; another entry may be in its place.
      const reason = reasons.get(at) ?? (at === path ? undefined : reasons.get(`${at}/`))
      if (reason !== undefined) return reason
    }
    return null
  }
}

const FILE = 'record.json'

interface Stored {
  left_out: [path: string, reason: LeftOut][]
  empty_folders: string[]
  permissions: [path: string, mode: string][]
  umask: string
  tool_written: { path: string; at: number; before?: { object_id: string; mode: string } }[]
}

export function storeRecord(
  objects: ObjectStore,
  files: FolderTree,
  toolWritten: readonly ToolWritten[],
  umask: number,
): string {
  const leftOut: [string, LeftOut][] = []
  const leftOutOnes = toolWritten.filter((file) => file.wasLeftOut)
  const empty: string[] = []
  for (const folder of foldersOf(files.root)) {
    const prefix = folder.path === '' ? '' : `${folder.path}/`
    for (const [name, reason] of folder.leftOut) leftOut.push([shownPath(prefix + name), reason])
    if (folder.parent && folder.files.size + folder.folders.size + folder.leftOut.size === 0) {
      empty.push(shownPath(folder.path))
    }
  }
  const stored: Stored = {
    left_out: leftOut.sort(byPath),
    empty_folders: empty.sort(),
    permissions: [...files.oddModes]
      .map(([path, mode]): [string, string] => [shownPath(path), mode.toString(8)])
      .sort(byPath),
    umask: umask.toString(8),
    tool_written: leftOutOnes.map(({ path, before, at }) => ({
      path: shownPath(path),
      at,
      ...(before ? { before: { object_id: before.oid, mode: before.mode.toString(8) } } : {}),
    })),
  }
  const list = objects.put('blob', Buffer.from(`${JSON.stringify(stored, null, 1)}\n`))
  const before = toolWritten.flatMap(({ before }) => (before ? [before.oid] : []))
  const entries = [
    ...[...new Set(before)].map((oid) => ({ mode: '100644', name: `before-${oid}`, oid })),
    { mode: '100644', name: FILE, oid: list },
  ]
  return objects.put('tree', treeBody(entries.sort((a, b) => (a.name < b.name ? -1 : 1))))
}

/** The record with other permissions for these files; undefined means the usual ones. */
export async function withModes(
  git: Git,
  objects: ObjectStore,
  oid: string,
  modes: ReadonlyMap<BytePath, number | undefined>,
): Promise<string> {
  const entries = new Map(await readTree(git, oid))
  const list = entries.get(FILE)
  const found = list && (await git.read(list.oid))
  if (!list || !found) throw new Error(`the record ${oid} is missing`)
  const stored = JSON.parse(found.body.toString()) as Stored
  const others = stored.permissions.filter(([path]) => !modes.has(fromShown(path)))
  const own = [...modes].flatMap(([path, mode]): [string, string][] =>
    mode === undefined ? [] : [[shownPath(path), mode.toString(8)]],
  )
  const permissions = [...others, ...own].sort(byPath)
  const changed = Buffer.from(`${JSON.stringify({ ...stored, permissions }, null, 1)}\n`)
  entries.set(FILE, { ...list, oid: objects.put('blob', changed) })
  const named = [...entries].map(([name, entry]) => ({ name, ...entry }))
  return objects.put('tree', treeBody(named.sort((a, b) => (a.name < b.name ? -1 : 1))))
}

export async function readRecord(git: Git, oid: string): Promise<CheckpointRecord> {
  const list = (await readTree(git, oid)).get(FILE)
  const found = list && (await git.read(list.oid))
  if (!found) throw new Error(`the record ${oid} is missing`)
  const stored = JSON.parse(found.body.toString()) as Stored
  return {
    leftOut: stored.left_out.map(([path, reason]) => ({ path: fromShown(path), reason })),
    emptyFolders: stored.empty_folders.map(fromShown).filter(isInside),
    modes: new Map(
      stored.permissions
        .map(([path, mode]): [BytePath, number] => [fromShown(path), octal(mode)])
        .filter(([path]) => isInside(path)),
    ),
    umask: octal(stored.umask),
    toolWritten: stored.tool_written
      .map(({ path, at, before }) => ({
        path: fromShown(path),
        wasLeftOut: true,
        at,
        before:
          before && OBJECT_ID.test(before.object_id)
            ? { oid: before.object_id, mode: octal(before.mode) }
            : null,
      }))
      .filter((file) => isInside(file.path)),
  }
}

export const OBJECT_ID = /^[0-9a-f]{40}$/

/** A checkpoint may have been imported, so no path in its record may lead out of the folder or into a repository. */
function isInside(path: BytePath): boolean {
  return path.split('/').every((part) => !['', '.', '..', '.git'].includes(part.toLowerCase()))
}

function octal(text: string): number {
  const mode = Number.parseInt(text, 8)
  return Number.isInteger(mode) ? mode & 0o7777 : 0
}

function* foldersOf(folder: Folder): Generator<Folder> {
  yield folder
  for (const inner of folder.folders.values()) yield* foldersOf(inner)
}

function byPath(a: readonly [string, string], b: readonly [string, string]): number {
  return a[0] < b[0] ? -1 : 1
}
