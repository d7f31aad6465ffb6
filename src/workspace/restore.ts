import {
  closeSync,
  fchmodSync,
  fdatasync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  rmdirSync,
  statfsSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { promisify } from 'node:util'
import type { Git } from '../git/git.ts'
import type { Aside } from './aside.ts'
import { type BytePath, onDisk } from './byte-path.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { createFileSwap, Skip, skipReasons } from './file-swap.ts'
import { isEqual, type Look, lookAt } from './look.ts'
import { InTheWay, type OpenFolders } from './open-folder.ts'
import type { Action, RestorePlan, Skipped } from './restore-plan.ts'

/**
 * Applies a restore plan. It writes every new file outside the workspace before it touches the first one, so that it detects
 * a full disk in time. Applying the same plan again after a crash gives the same result (W5).
 */
export interface RestoreOutcome {
  restored: BytePath[]
  deleted: BytePath[]
  skipped: Skipped[]
}

export interface CarriedOut extends RestoreOutcome {
  durable: Promise<unknown>
  /** Undoes everything. Needs no disk space: the replaced files still exist. */
  rollBack(): void
}

export interface RestoreOptions {
  git: Git
  root: BytePath
  folders: OpenFolders
  aside: Aside
  plan: RestorePlan
  /** A path on the file system where `aside` prepares files. */
  preparedIn: string
}

/** The disk is full; nothing was changed, or it was rolled back. */
export class DiskFull extends Error {
  constructor(cause?: unknown) {
    super('The disk is full. Nothing was changed; free some space and try again.', { cause })
    this.name = 'DiskFull'
  }
}

/** Limits for the files written at once and for the files kept open until they are durable. */
const AT_ONCE = 64
const MAX_UNSYNCED = 128
const MIN_FREE_BYTES = 4 * 1024 * 1024

const dataSync = promisify(fdatasync)

export async function restore(options: RestoreOptions): Promise<CarriedOut> {
  const { git, root, folders, aside, plan } = options
  /** New files, open until they are durable. */
  let unsynced: number[] = []
  const done: Action[] = []
  const swap = createFileSwap({ folders, aside })
  const outcome: RestoreOutcome = { restored: [], deleted: [], skipped: [...plan.skipped] }
  // Removals come first, the innermost first: a file may take a folder's place.
  const removals = plan.actions.filter((action) => !action.to).toReversed()
  const writes = plan.actions.filter((action) => action.to)
  const prepared = await prepareAll()
  try {
    for (const action of removals) {
      if (attempt(action, () => swap.remove(action))) outcome.deleted.push(action.path)
    }
    await removeEmptyFolders()
    for (const action of writes) {
      const ready = prepared.get(action.path)
      const isDone = attempt(action, () => {
        if (ready instanceof Error) throw ready
        swap.write(action, ready ?? null)
      })
      if (isDone) outcome.restored.push(action.path)
    }
    for (const path of plan.makeFolders) {
      attempt({ path, from: null, to: null, permissions: 0 }, () => void folders.get(path, true))
    }
    verify()
  } catch (error) {
    closeAll()
    rollBack()
    throw isDiskFull(error) ? new DiskFull(error) : error
  }
  outcome.deleted.reverse()
  outcome.skipped.sort((a, b) => (a.path < b.path ? -1 : 1))
  const parents = new Set(done.map((action) => parentOf(action.path)))
  const durable = Promise.all([syncAll(), ...[...parents].map((path) => syncFolder(path))])
  durable.catch(() => {})
  return { ...outcome, durable, rollBack }

  /** Writes every new file outside the workspace; for a link, reads its target. */
  async function prepareAll(): Promise<Map<BytePath, Buffer | Error | null>> {
    const ready = new Map<BytePath, Buffer | Error | null>()
    let bytes = 0
    try {
      for (let at = 0; at < writes.length; at += AT_ONCE) {
        const some = writes.slice(at, at + AT_ONCE)
        const results = await Promise.allSettled(some.map(prepare))
        for (const [i, result] of results.entries()) {
          const path = some[i]?.path ?? ''
          if (result.status === 'rejected') {
            if (isFatal(result.reason)) throw result.reason
            ready.set(path, result.reason as Error)
          } else {
            ready.set(path, result.value.linkTarget)
            bytes += result.value.bytes
          }
        }
        if (unsynced.length > MAX_UNSYNCED) await syncAll()
      }
      aside.reserve()
      assertRoomFor(bytes)
      return ready
    } catch (error) {
      closeAll()
      aside.useReserve()
      throw isDiskFull(error) ? new DiskFull(error) : error
    }
  }

  async function prepare({ path, to, permissions, body }: Action) {
    const found = body ? { type: 'blob', body } : to && (await git.read(to.oid))
    if (found?.type !== 'blob') throw new Skip(skipReasons.missing)
    if (to?.mode === '120000') return { linkTarget: found.body, bytes: 0 }
    const file = openNew(aside.fresh(path), permissions)
    try {
      writeFileSync(file, found.body)
      // The umask may have cleared bits.
      if ((fstatSync(file).mode & 0o777) !== permissions) fchmodSync(file, permissions)
    } catch (error) {
      closeSync(file)
      throw error
    }
    unsynced.push(file)
    return { linkTarget: null, bytes: found.body.length }
  }

  /** Files that were prepared on another file system are copied when they are put in place. */
  function assertRoomFor(bytes: number): void {
    if (statSync(onDisk(root)).dev === statSync(options.preparedIn).dev) return
    const { bavail, bsize } = statfsSync(onDisk(root))
    if (bavail * bsize < bytes + MIN_FREE_BYTES) throw new DiskFull()
  }

  async function syncAll(): Promise<void> {
    const files = unsynced
    unsynced = []
    await Promise.all(files.map((file) => dataSync(file).finally(() => closeSync(file))))
  }

  function closeAll(): void {
    for (const file of unsynced) closeSync(file)
    unsynced = []
  }

  async function syncFolder(path: BytePath): Promise<void> {
    await folders.sync(path).catch((error: unknown) => {
      // A file has taken its place, or another program has removed it.
      const { code } = error as NodeJS.ErrnoException
      if (!(error instanceof InTheWay) && code !== 'ENOENT') throw error
    })
  }

  function rollBack(): void {
    aside.useReserve()
    for (const action of done.toReversed()) swap.takeBack(action)
  }

  /** Moves a file that differs from the plan to `skipped`: another program has changed it. */
  function verify(): void {
    const isDone = new Set([...outcome.restored, ...outcome.deleted])
    const isRight = (found: Look, { to }: Action) =>
      // A folder may have taken the place of a removed file.
      isEqual(found, to) || (found === 'other' && to === null)
    const wrong = plan.actions.filter(
      (action) => isDone.has(action.path) && !isRight(lookBelow(action.path), action),
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
      // A file has taken its folder's place.
      if (error instanceof InTheWay) return null
      throw error
    }
  }

  function attempt(action: Action, act: () => void): boolean {
    try {
      act()
      done.push(action)
      return true
    } catch (error) {
      if (isFatal(error)) throw error
      outcome.skipped.push({ path: action.path, reason: reasonOf(error) })
      return false
    }
  }

  /** Removes folders that the removals left empty and empty folders created since. Keeps other empty folders. */
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
        // Not empty, or no longer a folder: keep it.
      }
    }
    // A removed folder must not stay open as if it still existed.
    folders.close()
  }
}

/** Errors that every other file would also cause: they roll back the whole restore. */
const fatal = new Set(['ENOSPC', 'EDQUOT', 'EIO', 'EMFILE', 'ENFILE', 'ENOMEM'])

export function isFatal(error: unknown): boolean {
  return fatal.has((error as NodeJS.ErrnoException).code ?? '')
}

export function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'SQLITE_FULL'].includes((error as NodeJS.ErrnoException).code ?? '')
}

/** A killed restore's file may be hard-linked to the one now in place, so it is replaced and never written to. */
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

/** Predicts the outcome of a plan as far as possible without changing anything. */
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

/** True if the folder will be empty once these files are removed. */
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
      return 'the file system denied permission'
    case 'ENAMETOOLONG':
      return 'the path is too long'
    case 'ENOENT':
      return skipReasons.gone
    case undefined:
      throw error
    default:
      return `the file system reported ${code}`
  }
}
