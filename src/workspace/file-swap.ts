import { chmodSync, unlinkSync } from 'node:fs'
import type { Aside } from './aside.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { isEqual, type Look, lookAt } from './look.ts'
import type { OpenFolder, OpenFolders } from './open-folder.ts'
import type { Action } from './restore-plan.ts'

/**
 * Replaces or removes one file. It first moves the current entry aside in one step and compares it with the stored one: only
 * a stored entry is ever replaced or removed, and one that was written at that moment is restored (W4). Tools and restores
 * change files only through this.
 */
export interface FileSwap {
  /** Puts the file that `aside` has prepared in place, or a link to `linkTarget`. */
  write(action: Action, linkTarget: Buffer | null): void
  remove(action: Action): void
  /** Undoes `write` or `remove`, unless the file has changed since. Needs no disk space. */
  takeBack(action: Action): void
}

export const skipReasons = {
  changed: 'it changed in the meantime',
  gone: 'it was deleted in the meantime',
  missing: 'its content is missing from the store',
  unsaved: 'an unsaved file or folder is in its place',
  inTheWay: 'a symbolic link or an unsaved file is in the way',
} as const

/** The file is left unchanged; the message says why. */
export class Skip extends Error {}

export function createFileSwap({ folders, aside }: { folders: OpenFolders; aside: Aside }): FileSwap {
  function takeIfSaved(folder: OpenFolder, { path, from }: Action, found: Look) {
    if (!from || found === 'other') throw new Skip(skipReasons.unsaved)
    if (!isEqual(found, from)) throw new Skip(skipReasons.changed)
    return aside.take(folder, path)
  }

  return {
    write(action, linkTarget) {
      const { path, from, to, permissions } = action
      const folder = folders.get(parentOf(path), true)
      if (!folder) throw new Skip(skipReasons.gone)
      const place = folder.at(nameOf(path))
      const found = lookAt(place)
      const before = aside.leftOver(folder, path)
      if (found && found !== 'other' && isEqual(found, to)) {
        if (!linkTarget && found.permissions !== permissions) chmodSync(place, permissions)
        if (before && isEqual(lookAt(before), from)) unlinkSync(before)
        return
      }
      const taken = found ? takeIfSaved(folder, action, found) : before
      if (!taken && from) throw new Skip(skipReasons.gone)
      if (taken && !isEqual(lookAt(taken), from)) {
        aside.putBack(folder, path, taken)
        throw new Skip(skipReasons.changed)
      }
      try {
        if (linkTarget) aside.putLink(folder, path, linkTarget)
        else aside.put(folder, path)
      } catch (error) {
        if (taken) aside.putBack(folder, path, taken)
        throw error
      }
      if (taken && from) aside.hold(path, taken, from)
    },
    remove(action) {
      const { path, from } = action
      const folder = folders.get(parentOf(path), false)
      if (!folder) return
      const found = lookAt(folder.at(nameOf(path)))
      const taken = found ? takeIfSaved(folder, action, found) : aside.leftOver(folder, path)
      if (!taken) return
      if (from && isEqual(lookAt(taken), from)) return aside.hold(path, taken, from)
      aside.putBack(folder, path, taken)
      throw new Skip(skipReasons.changed)
    },
    takeBack({ path, from, to }) {
      const folder = folders.get(parentOf(path), true)
      if (!folder) return
      const place = folder.at(nameOf(path))
      const isSame = from?.oid === to?.oid && from?.mode === to?.mode
      if (to && !isSame && isEqual(lookAt(place), to)) unlinkSync(place)
      aside.release(folder, path)
    },
  }
}
