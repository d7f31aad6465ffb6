import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Git } from '../git/git.ts'
import type { ToolWritten } from '../manifest/manifest.ts'
import { type Aside, createAside, settleRetired, undoKilledEdit } from './aside.ts'
import { type BytePath, fromShown, shownPath } from './byte-path.ts'
import { readCommit } from './commit.ts'
import { nameOf, parentOf } from './entry-path.ts'
import { skipReasons } from './file-swap.ts'
import { usualPermissions } from './folder-tree.ts'
import { type Look, lookAt } from './look.ts'
import { createOpenFolders, type OpenFolders } from './open-folder.ts'
import { objectId } from './pack.ts'
import type { Rescued } from './rescued.ts'
import { DiskFull, isDiskFull, type RestoreOutcome, restore } from './restore.ts'
import type { RestorePlan, Skipped } from './restore-plan.ts'
import { entryIn } from './trees.ts'

/** Changes files: applies a restore plan or a tool's edit. Use only while the workspace is locked. */
export interface FileOperations {
  /** Applies a plan, then runs `then`, which becomes durable together with the files. Rolls back both if either fails. */
  apply<T>(
    plan: RestorePlan,
    then: () => Promise<T>,
    commit: () => void,
  ): Promise<{ report: RestoreReport; made: T }>
  edit(command: EditCommand, confirm: (kept: MadeCheckpoint | null) => Promise<void>): Promise<EditOutcome>
  /** Undoes a killed edit, and does the last check that a killed process missed. */
  recover(): void
  /** Checks the replaced files one last time and deletes them. */
  settle(): void
}

export interface FileOperationsDependencies {
  git: Git
  root: BytePath
  dataDir: string
  /** Each working copy has its own, because the paths in it are relative to the copy's root. */
  scratch: string
  rescued: string
  umask: number
  isStored(oid: string): boolean
  toolWritten(): ToolWritten[]
  beforeWrite(path: BytePath): Promise<void>
  checkpoint(command: CheckpointCommand): Promise<MadeCheckpoint>
  inTurn<T>(work: () => Promise<T>): Promise<T>
  onRescued?: ((files: RestoreReport['rescued']) => void) | undefined
}

export interface CheckpointCommand {
  label: string
  parents: string[]
  time: number
}

export interface MadeCheckpoint {
  id: string
  files: number
  /** Compared with its first parent. */
  changed: number
  excluded: number
  /** True if its first parent has the same files, permissions and empty folders. */
  isSame: boolean
}

export interface RestoreReport {
  restored: string[]
  deleted: string[]
  skipped: { path: string; reason: string }[]
  /** Files that a program kept writing to after they were replaced; stored under their own paths. */
  rescued: { path: string; file: string }[]
}

export interface EditCommand {
  path: string
  /** Null deletes the file. */
  bytes: Uint8Array | null
  /** SHA-256 of the file as the caller read it; the edit is refused if it differs. Undefined accepts any content. */
  expected?: string | undefined
  /** The checkpoint to take first when no checkpoint has the file. */
  checkpoint: CheckpointCommand
}

export type EditOutcome =
  | {
      isDone: true
      /** The previous bytes; null when the file did not exist or is too large to return. */
      before: Uint8Array | null
      wasThere: boolean
      kept: MadeCheckpoint | null
      rescued: RestoreReport['rescued']
    }
  | { isDone: false; why: 'changed' | 'not_a_file' | 'missing' }

/** Replaced files are checked once more after this time, then deleted. */
const LAST_LOOK_MS = 1000
/** How often an edit is tried while the file keeps changing. */
const EDIT_ATTEMPTS = 5
const MAX_REMEMBERED_EDITS = 10_000
const MAX_RETURNED_BYTES = 10 * 1024 * 1024

export function createFileOperations(deps: FileOperationsDependencies): FileOperations {
  const { git, root, dataDir, scratch, rescued, isStored, checkpoint, inTurn } = deps
  const editing = { folder: join(scratch, 'edit'), rescued }
  const restoring = { folder: join(scratch, 'restore'), rescued }
  /** The last object that tools wrote, by path: the ledger has it, so the next edit needs no checkpoint first. */
  const written = new Map<BytePath, string>()
  let retired: ReturnType<Aside['retire']>[] = []
  let lastLook: NodeJS.Timeout | undefined

  function withFolders<T>(work: (folders: OpenFolders) => T): T {
    const folders = createOpenFolders(root)
    try {
      return work(folders)
    } finally {
      folders.close()
    }
  }

  function tell(late: readonly Rescued[]): void {
    if (late.length > 0) deps.onRescued?.(late.map(shownRescue))
  }

  function settle(): void {
    clearTimeout(lastLook)
    const waiting = retired
    retired = []
    withFolders((folders) => {
      for (const one of waiting) tell(one.settle(folders))
    })
  }

  function retire(aside: Aside): void {
    retired.push(aside.retire())
    clearTimeout(lastLook)
    lastLook = setTimeout(() => void inTurn(async () => settle()), LAST_LOOK_MS)
    lastLook.unref()
  }

  /** Applies a plan, then runs `then`, which becomes durable together with the files, and commits the manifest. Rolls the files back if any of it fails. */
  async function apply<T>(
    plan: RestorePlan,
    then: () => Promise<T>,
    commit: () => void,
  ): Promise<{ report: RestoreReport; made: T }> {
    const aside = createAside({ ...restoring, isStored, paths: plan.actions.map((action) => action.path) })
    const folders = createOpenFolders(root)
    try {
      reserve(aside)
      const carried = await restore({ git, root, folders, aside, plan, preparedIn: dataDir })
      try {
        aside.useReserve()
        const [made] = await Promise.all([then(), carried.durable])
        commit()
        const report = shownReport(carried, aside.lookAgain(folders))
        retire(aside)
        return { report, made }
      } catch (error) {
        carried.rollBack()
        throw isDiskFull(error) ? new DiskFull(error) : error
      }
    } catch (error) {
      aside.clear()
      throw error
    } finally {
      folders.close()
    }
  }

  function reserve(aside: Aside): void {
    try {
      aside.reserve()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      throw new DiskFull(error)
    }
  }

  /** True if the last checkpoint has these bytes or a tool wrote them. */
  async function isKept(
    path: BytePath,
    found: Exclude<Look, 'other'>,
    checkpoint: string | undefined,
  ): Promise<boolean> {
    if (found === null || written.get(path) === found.oid) return true
    const first = deps.toolWritten().find((file) => file.path === path)
    if (first?.before?.oid === found.oid) return true
    if (checkpoint === undefined || !isStored(checkpoint)) return false
    const { tree } = await readCommit(git, checkpoint)
    return (await entryIn(git, tree, path))?.oid === found.oid
  }

  async function edit(
    command: EditCommand,
    confirm: Parameters<FileOperations['edit']>[1],
  ): Promise<EditOutcome> {
    const path = fromShown(command.path)
    const bytes = command.bytes === null ? null : Buffer.from(command.bytes)
    const folders = createOpenFolders(root)
    let kept: MadeCheckpoint | null = null
    try {
      for (let attempt = 0; attempt < EDIT_ATTEMPTS; attempt++) {
        const found = lookAt(folders.get(parentOf(path), false)?.at(nameOf(path)) ?? '')
        if (found === 'other') return { isDone: false, why: 'not_a_file' }
        if (found === null && bytes === null) return { isDone: false, why: 'missing' }
        if (command.expected !== undefined && sha256(found?.bytes) !== command.expected) break
        await deps.beforeWrite(path)
        if (await isKept(path, found, kept?.id ?? command.checkpoint.parents[0])) await confirm(null)
        else {
          const made = await checkpoint(command.checkpoint)
          // Store its frame before it counts as kept. If it has a newer version than `found`, try again.
          await confirm(made)
          kept = made
          if (!(await isKept(path, found, made.id))) continue
        }
        const to = bytes && { mode: found?.mode === '100755' ? found.mode : '100644', oid: blobId(bytes) }
        const permissions = isFile(found) ? found.permissions : usualPermissions(0, deps.umask)
        const action = { path, from: found, to, permissions, ...(bytes ? { body: bytes } : {}) }
        const outcome = await swapOne(folders, action)
        if (!outcome) continue
        remember(path, to?.oid)
        const before = found && found.bytes.length <= MAX_RETURNED_BYTES ? found.bytes : null
        return { isDone: true, before, wasThere: found !== null, kept, rescued: outcome.map(shownRescue) }
      }
      return { isDone: false, why: 'changed' }
    } finally {
      folders.close()
    }
  }

  /** Returns null when the file has changed again. */
  async function swapOne(
    folders: OpenFolders,
    action: RestorePlan['actions'][number],
  ): Promise<Rescued[] | null> {
    const aside = createAside({ ...editing, paths: [action.path] })
    // A tool's edit never removes folders.
    const rest = { makeFolders: [], removeFolders: [], skipped: [], isKnownFolder: async () => true }
    const plan: RestorePlan = { actions: [action], ...rest }
    try {
      const carried = await restore({ git, root, folders, aside, plan, preparedIn: dataDir })
      await carried.durable
      const [skip] = carried.skipped
      if (skip) {
        aside.clear()
        if (isWorthAnotherLook(skip.reason)) return null
        throw new Error(`${shownPath(skip.path)}: ${skip.reason}`)
      }
      const rescuedNow = aside.lookAgain(folders)
      retire(aside)
      return rescuedNow
    } catch (error) {
      if (existsSync(editing.folder)) aside.clear()
      throw error
    }
  }

  function remember(path: BytePath, oid: string | undefined): void {
    written.delete(path)
    if (written.size >= MAX_REMEMBERED_EDITS) written.clear()
    if (oid !== undefined) written.set(path, oid)
  }

  return {
    apply,
    edit,
    settle,
    recover: () =>
      withFolders((folders) => {
        undoKilledEdit({ ...editing, folders })
        tell(settleRetired({ tmp: scratch, rescued, folders, isStored }))
      }),
  }
}

/** Another program changed, deleted or created the file since the edit looked at it. */
function isWorthAnotherLook(reason: string): boolean {
  const { changed, gone, unsaved } = skipReasons
  return [changed, gone, unsaved].some((one) => one === reason)
}

function isFile(found: Exclude<Look, 'other'>): found is Exclude<Look, 'other' | null> {
  return found !== null && found.mode !== '120000'
}

function blobId(bytes: Buffer): string {
  return objectId('blob', bytes).toString('hex')
}

function sha256(bytes: Buffer | undefined): string | null {
  return bytes === undefined ? null : hash('sha256', bytes)
}

function shownRescue({ path, file }: Rescued): { path: string; file: string } {
  return { path: shownPath(path), file }
}

export function shownReport(
  { restored, deleted, skipped }: RestoreOutcome,
  rescued: readonly Rescued[],
): RestoreReport {
  return {
    rescued: rescued.map(shownRescue),
    restored: restored.map(shownPath),
    deleted: deleted.map(shownPath),
    skipped: skipped.map(shownSkip),
  }
}

function shownSkip({ path, reason }: Skipped): { path: string; reason: string } {
  return { path: shownPath(path), reason }
}
