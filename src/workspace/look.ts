import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { gitMode, permissions } from './folder-tree.ts'
import { objectId } from './pack.ts'
import type { TreeEntry } from './trees.ts'

/** A file or link as found on disk; `other` for any other entry, null for none. */
export type Look = (TreeEntry & { permissions: number; bytes: Buffer }) | 'other' | null

export function lookAt(place: string | Buffer): Look {
  const found = lstatSync(place, { throwIfNoEntry: false })
  if (!found) return null
  if (!found.isFile() && !found.isSymbolicLink()) return 'other'
  const bytes = found.isSymbolicLink()
    ? Buffer.from(readlinkSync(place, 'latin1'), 'latin1')
    : readFileSync(place)
  return {
    mode: gitMode(found.mode),
    oid: objectId('blob', bytes).toString('hex'),
    permissions: permissions(found.mode),
    bytes,
  }
}

export function isEqual(found: Look, entry: TreeEntry | null): boolean {
  if (found === 'other') return false
  return found?.oid === entry?.oid && found?.mode === entry?.mode
}

export function isThere(place: string | Buffer): boolean {
  return lstatSync(place, { throwIfNoEntry: false }) !== undefined
}
