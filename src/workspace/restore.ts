import { chmodSync, lstatSync, readdirSync, rmdirSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { type Aside, isEqual, type Look, lookAt, nameOf, parentOf } from './aside.ts'
import { type BytePath, onDisk } from './byte-path.ts'
import type { Git } from './git.ts'
import { InTheWay, type OpenFolder, openFolder } from './open-folder.ts'
import type { Action, RestorePlan, Skipped } from './restore-plan.ts'

/**
 * Carries a plan out. Whatever stands in a file's place is first taken aside in one step and compared with the safety
 * checkpoint: only what that has is ever replaced or removed, and what was written in that very moment goes back (W4).
 * Carrying the same plan out again, after a crash, ends where the first time would have (W5).
 */
export interface RestoreOutcome {
  restored: BytePath[]
  deleted: BytePath[]
  skipped: Skipped[]
}

export interface RestoreOptions {
  git: Git
  root: BytePath
  aside: Aside
  plan: RestorePlan
}

/** How many files are made ready before they are put in place. */
const AT_ONCE = 64

export const skipReasons = {
  changed: 'it has changed meanwhile',
  gone: 'it was deleted meanwhile',
  missing: 'its bytes are missing from the store',
  unsaved: 'something that was not saved is in its place',
  inTheWay: 'a symbolic link, or a file that was not saved, is in the way',
} as const

class Skip extends Error {}

export async function restore({ git, root, aside, plan }: RestoreOptions): Promise<RestoreOutcome> {
  const outcome: RestoreOutcome = { restored: [], deleted: [], skipped: [...plan.skipped] }
  // First what goes, the innermost first: a folder may have to make room for a file.
  const removals = plan.actions.filter((action) => !action.to).toReversed()
  const writes = plan.actions.filter((action) => action.to)
  for (const action of removals) {
    if (attempt(action.path, () => remove(action))) outcome.deleted.push(action.path)
  }
  await removeEmptyFolders()
  for (let at = 0; at < writes.length; at += AT_ONCE) {
    const some = writes.slice(at, at + AT_ONCE)
    const ready = await Promise.allSettled(some.map(prepare))
    for (const [i, action] of some.entries()) {
      const prepared = ready[i]
      const isDone = attempt(action.path, () => {
        if (prepared?.status === 'rejected') throw prepared.reason
        write(action, prepared?.value ?? null)
      })
      if (isDone) outcome.restored.push(action.path)
    }
  }
  for (const path of plan.makeFolders) attempt(path, () => openFolder(root, path, true)?.close())
  verify()
  outcome.deleted.reverse()
  outcome.skipped.sort((a, b) => (a.path < b.path ? -1 : 1))
  return outcome

  /** What is not as it should be after all was changed behind our back. */
  function verify(): void {
    const done = new Set([...outcome.restored, ...outcome.deleted])
    const isRight = (found: Look, { to }: Action) =>
      // A folder may have come in the place of a file that had to go.
      isEqual(found, to) || (found === 'other' && to === null)
    const wrong = plan.actions.filter(
      (action) => done.has(action.path) && !isRight(lookBelow(action.path), action),
    )
    for (const { path } of wrong) outcome.skipped.push({ path, reason: skipReasons.changed })
    const isWrong = new Set(wrong.map((action) => action.path))
    outcome.restored = outcome.restored.filter((path) => !isWrong.has(path))
    outcome.deleted = outcome.deleted.filter((path) => !isWrong.has(path))
  }

  function lookBelow(path: BytePath): Look {
    try {
      const folder = openFolder(root, parentOf(path), false)
      if (!folder) return null
      try {
        return lookAt(folder.at(nameOf(path)))
      } finally {
        folder.close()
      }
    } catch (error) {
      // Its folder has made room for a file.
      if (error instanceof InTheWay) return null
      throw error
    }
  }

  function attempt(path: BytePath, act: () => void): boolean {
    try {
      act()
      return true
    } catch (error) {
      outcome.skipped.push({ path, reason: reasonOf(error) })
      return false
    }
  }

  /** The new file, durable before anything is touched; of a link, where it leads. */
  async function prepare({ path, to, permissions }: Action): Promise<Buffer | null> {
    const found = to && (await git.read(to.oid))
    if (found?.type !== 'blob') throw new Skip(skipReasons.missing)
    if (to?.mode === '120000') return found.body
    // One that a killed restore left may be the very file that is in place by now: never written to.
    await rm(aside.fresh(path), { force: true })
    const file = await open(aside.fresh(path), 'wx', 0o600)
    try {
      await file.writeFile(found.body)
      await file.chmod(permissions)
      await file.datasync()
    } finally {
      await file.close()
    }
    return null
  }

  function write(action: Action, linkTarget: Buffer | null): void {
    const { path, from, to, permissions } = action
    const folder = openFolder(root, parentOf(path), true)
    if (!folder) throw new Skip(skipReasons.gone)
    const name = nameOf(path)
    try {
      const found = lookAt(folder.at(name))
      if (found && found !== 'other' && isEqual(found, to)) {
        if (!linkTarget && found.permissions !== permissions) chmodSync(folder.at(name), permissions)
        if (isEqual(aside.taken(folder, path), from)) aside.drop(folder, path)
        return
      }
      if (found) takeIfSaved(folder, action)
      const taken = aside.taken(folder, path)
      if (!taken && from) throw new Skip(skipReasons.gone)
      if (!isEqual(taken, from)) {
        aside.putBack(folder, name, path)
        throw new Skip(skipReasons.changed)
      }
      try {
        if (linkTarget) aside.putLink(folder, name, linkTarget)
        else aside.put(folder, name, path)
      } catch (error) {
        aside.putBack(folder, name, path)
        throw error
      }
      aside.drop(folder, path)
    } finally {
      folder.close()
    }
  }

  function remove(action: Action): void {
    const { path, from } = action
    const folder = openFolder(root, parentOf(path), false)
    if (!folder) return
    try {
      if (lookAt(folder.at(nameOf(path)))) takeIfSaved(folder, action)
      const taken = aside.taken(folder, path)
      if (!taken) return
      if (isEqual(taken, from)) return aside.drop(folder, path)
      aside.putBack(folder, nameOf(path), path)
      throw new Skip(skipReasons.changed)
    } finally {
      folder.close()
    }
  }

  function takeIfSaved(folder: OpenFolder, { path, from }: Action): void {
    const found = lookAt(folder.at(nameOf(path)))
    if (!from || found === 'other') throw new Skip(skipReasons.unsaved)
    if (!isEqual(found, from)) throw new Skip(skipReasons.changed)
    aside.take(folder, nameOf(path), path)
  }

  /** Folders that the removals have left empty, and those that were made empty since. Others' empty folders stay. */
  async function removeEmptyFolders(): Promise<void> {
    const candidates = new Set(plan.removeFolders)
    for (const { path } of removals) {
      for (let at = parentOf(path); at !== ''; at = parentOf(at)) candidates.add(at)
    }
    for (const path of [...candidates].toSorted().toReversed()) {
      if (await plan.isKnownFolder(path)) continue
      try {
        const folder = openFolder(root, parentOf(path), false)
        try {
          if (folder) rmdirSync(folder.at(nameOf(path)))
        } finally {
          folder?.close()
        }
      } catch {
        // Not empty, or not a folder any more: then it stays.
      }
    }
  }
}

/** What carrying the plan out would do, as far as can be told without touching anything. */
export function foresee(root: BytePath, plan: RestorePlan): RestoreOutcome {
  const outcome: RestoreOutcome = { restored: [], deleted: [], skipped: [...plan.skipped] }
  const goes = new Set(plan.actions.filter((action) => !action.to).map((action) => action.path))
  for (const action of plan.actions) {
    const reason = obstacle(root, action, goes)
    if (reason) outcome.skipped.push({ path: action.path, reason })
    else (action.to ? outcome.restored : outcome.deleted).push(action.path)
  }
  outcome.skipped.sort((a, b) => (a.path < b.path ? -1 : 1))
  return outcome
}

function obstacle(root: BytePath, { path, from, to }: Action, goes: ReadonlySet<BytePath>): string | null {
  const parts = path.split('/')
  for (let depth = 1; depth < parts.length; depth++) {
    const above = parts.slice(0, depth).join('/')
    const found = lstatSync(onDisk(`${root}/${above}`), { throwIfNoEntry: false })
    if (!found) return null
    if (!found.isDirectory()) return goes.has(above) ? null : skipReasons.inTheWay
  }
  const found = lookAt(onDisk(`${root}/${path}`))
  if (found === null || isEqual(found, to) || (found !== 'other' && isEqual(found, from))) return null
  if (found !== 'other') return from ? skipReasons.changed : skipReasons.unsaved
  return holdsOnly(root, path, goes) ? null : skipReasons.unsaved
}

/** Whether a folder will be empty when these have gone. */
function holdsOnly(root: BytePath, path: BytePath, goes: ReadonlySet<BytePath>): boolean {
  const place = onDisk(`${root}/${path}`)
  if (!lstatSync(place).isDirectory()) return false
  return readdirSync(place, { withFileTypes: true, encoding: 'latin1' }).every((entry) =>
    entry.isDirectory() ? holdsOnly(root, `${path}/${entry.name}`, goes) : goes.has(`${path}/${entry.name}`),
  )
}

function reasonOf(error: unknown): string {
  if (error instanceof Skip) return error.message
  if (error instanceof InTheWay) return skipReasons.inTheWay
  const { code } = error as NodeJS.ErrnoException
  switch (code) {
    case 'EEXIST':
      return skipReasons.changed
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'the file system does not permit it'
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'ENAMETOOLONG':
      return 'the path is too long'
    case 'ENOENT':
      return skipReasons.gone
    case undefined:
      throw error
    default:
      return `the file system said ${code}`
  }
}
