import {
  chmodSync,
  closeSync,
  fchmodSync,
  fdatasync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlink,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { promisify } from 'node:util'
import type { Git } from '../git/git.ts'
import { type Aside, isEqual, type Look, lookAt, nameOf, parentOf } from './aside.ts'
import { type BytePath, onDisk } from './byte-path.ts'
import { createOpenFolders, InTheWay, type OpenFolder, type OpenFolders } from './open-folder.ts'
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

const dataSync = promisify(fdatasync)
const unlinkLater = promisify(unlink)

class Skip extends Error {}

export async function restore(
  options: RestoreOptions,
): Promise<RestoreOutcome & { durable: Promise<unknown> }> {
  const folders = createOpenFolders(options.root)
  const syncing: Promise<void>[] = []
  try {
    return { ...(await carryOut(options, folders, syncing)), durable: Promise.all(syncing) }
  } catch (error) {
    await Promise.allSettled(syncing)
    throw error
  } finally {
    folders.close()
  }
}

async function carryOut(
  { git, aside, plan }: RestoreOptions,
  folders: OpenFolders,
  syncing: Promise<void>[],
): Promise<RestoreOutcome> {
  /** New files, open until they are durable. */
  const written: number[] = []
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
    // All at once, when they are in place: the file system makes them durable together.
    for (const file of written.splice(0)) later(dataSync(file).finally(() => closeSync(file)))
  }
  for (const path of plan.makeFolders) attempt(path, () => void folders.get(path, true))
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
      const folder = folders.get(parentOf(path), false)
      return folder && lookAt(folder.at(nameOf(path)))
    } catch (error) {
      // Its folder has made room for a file.
      if (error instanceof InTheWay) return null
      throw error
    }
  }

  /** Awaited at the end, with its error; until then nobody listens. */
  function later(work: Promise<void>): void {
    work.catch(() => {})
    syncing.push(work)
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

  /** The new file, beside the workspace; of a link, where it leads. */
  async function prepare({ path, to, permissions }: Action): Promise<Buffer | null> {
    const found = to && (await git.read(to.oid))
    if (found?.type !== 'blob') throw new Skip(skipReasons.missing)
    if (to?.mode === '120000') return found.body
    const file = openNew(aside.fresh(path), permissions)
    try {
      writeFileSync(file, found.body)
      // The system may have taken bits away.
      if ((fstatSync(file).mode & 0o777) !== permissions) fchmodSync(file, permissions)
    } catch (error) {
      closeSync(file)
      throw error
    }
    written.push(file)
    return null
  }

  function write(action: Action, linkTarget: Buffer | null): void {
    const { path, from, to, permissions } = action
    const folder = folders.get(parentOf(path), true)
    if (!folder) throw new Skip(skipReasons.gone)
    const name = nameOf(path)
    const found = lookAt(folder.at(name))
    const before = aside.leftOver(folder, path)
    if (found && found !== 'other' && isEqual(found, to)) {
      if (!linkTarget && found.permissions !== permissions) chmodSync(folder.at(name), permissions)
      if (before && isEqual(lookAt(before), from)) unlinkSync(before)
      return
    }
    const taken = found ? takeIfSaved(folder, action, found) : before
    if (!taken && from) throw new Skip(skipReasons.gone)
    if (taken && !isEqual(lookAt(taken), from)) {
      aside.putBack(folder, name, taken)
      throw new Skip(skipReasons.changed)
    }
    try {
      if (linkTarget) aside.putLink(folder, name, linkTarget)
      else aside.put(folder, name, path)
    } catch (error) {
      if (taken) aside.putBack(folder, name, taken)
      throw error
    }
    if (taken) drop(taken)
  }

  /** Found to be saved. To free what it took costs more than all the rest, and nobody has to wait for it. */
  function drop(place: string | Buffer): void {
    later(unlinkLater(place))
  }

  function remove(action: Action): void {
    const { path, from } = action
    const folder = folders.get(parentOf(path), false)
    if (!folder) return
    const found = lookAt(folder.at(nameOf(path)))
    const taken = found ? takeIfSaved(folder, action, found) : aside.leftOver(folder, path)
    if (!taken) return
    if (isEqual(lookAt(taken), from)) return drop(taken)
    aside.putBack(folder, nameOf(path), taken)
    throw new Skip(skipReasons.changed)
  }

  function takeIfSaved(folder: OpenFolder, { path, from }: Action, found: Look) {
    if (!from || found === 'other') throw new Skip(skipReasons.unsaved)
    if (!isEqual(found, from)) throw new Skip(skipReasons.changed)
    return aside.take(folder, nameOf(path), path)
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
        const folder = folders.get(parentOf(path), false)
        if (folder) rmdirSync(folder.at(nameOf(path)))
      } catch {
        // Not empty, or not a folder any more: then it stays.
      }
    }
    // What has gone must not be taken for being there.
    folders.close()
  }
}

/** One that a killed restore left may be the very file that is in place by now: it is never written to. */
function openNew(path: string, permissions: number): number {
  const open = () => openSync(path, 'wx', permissions)
  try {
    return open()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    unlinkSync(path)
    return open()
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
