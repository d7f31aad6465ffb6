import { existsSync, rmSync } from 'node:fs'
import type { CollectionStore } from '../core/collection.ts'
import { type WorkRows, type WorkStore, workStateOf } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { MANY_MIRRORED } from './pack-mirror.ts'
import {
  clearLocks,
  conversationFolder,
  conversationsOnDisk,
  copiesOnDisk,
  copyFolder,
  copyLock,
  makingMark,
  readBranches,
  sizeOfFolder,
  writeBranches,
} from './repository.ts'
import type { Collected } from './store-upkeep.ts'
import type { WorkspaceThread } from './workspace-thread.ts'

/** Looks after all conversations' repositories of a workspace. */

export interface RepositoriesDependencies {
  store: WorkStore & Pick<CollectionStore, 'checkpointsRemoved'>
  workspace: WorkspaceThread
  /** The workspaces that are here: the project's own, and those of conversations with a copy. */
  workspaceIds(): string[]
  /** How the workspace of a conversation's own copy is called. */
  copyId(conversationId: string): string
  dataDir: string
}

/** A checkpoint's frame is stored within this time, or the message that it was made for is not. */
const GRACE_MS = 10 * 60 * 1000

async function conversationsIn(store: WorkStore, workspaceIds: readonly string[]) {
  const found = await Promise.all(workspaceIds.map((id) => store.conversations(id)))
  return found.flat()
}

/** Makes every repository say what the ledger says; answers how many did not. */
export async function followLedger({
  store,
  workspaceIds,
  dataDir,
}: RepositoriesDependencies): Promise<number> {
  let wrong = 0
  for (const id of conversationsOnDisk(dataDir)) clearLocks(dataDir, id)
  for (const { tenant, id } of await conversationsIn(store, workspaceIds())) {
    const before = readBranches(dataDir, id)
    const rows = await rowsUnlessDeleted(store, tenant, id)
    if (!rows) continue
    const { heads, session } = workStateOf(rows)
    if (before && before.current === session && isSame(before.heads, heads)) continue
    // Another process may have moved it since: then it says what is right already.
    const now = readBranches(dataDir, id)
    if (JSON.stringify(now) !== JSON.stringify(before)) continue
    writeBranches(dataDir, id, { heads, current: session })
    wrong++
  }
  return wrong
}

/** Null for a conversation that was deleted since it was listed. */
export async function rowsUnlessDeleted(
  store: WorkStore,
  tenant: string,
  id: ConversationId,
): Promise<WorkRows | null> {
  return await store.rows(tenant, id).catch((error: unknown) => {
    if (error instanceof WaymarkError && error.code === 'conversation_not_found') return null
    throw error
  })
}

/** Drops the files of conversations that were collected, and unreachable objects; returns the bytes. */
export async function dropUnreachable(
  deps: RepositoriesDependencies,
  graceMs: number = GRACE_MS,
): Promise<number> {
  const { store, workspace, dataDir } = deps
  const gone = new Set(await store.expiredAmong(conversationsOnDisk(dataDir)))
  const copies = await unusedCopies(deps)
  const removed = await store.checkpointsRemoved()
  const { checkpointsRemoved, mirroredPacks } = await workspace.condition()
  const isDue = gone.size > 0 || removed !== checkpointsRemoved || mirroredPacks > MANY_MIRRORED
  const collected = isDue ? await collectObjects(deps, gone, removed, graceMs) : null
  for (const id of gone) rmSync(conversationFolder(dataDir, id), { recursive: true, force: true })
  let bytes = collected ? Math.max(0, collected.before.bytes - collected.after.bytes) : 0
  for (const id of copies) {
    bytes += sizeOfFolder(copyFolder(dataDir, id))
    await dropCopy(workspace, dataDir, id)
  }
  return bytes
}

/** Working copies of conversations that were deleted for good, where no other conversation works in them. */
async function unusedCopies({ store, dataDir, copyId }: RepositoriesDependencies): Promise<string[]> {
  const copies = copiesOnDisk(dataDir)
  const gone = await store.expiredAmong(copies)
  const used = new Set(gone.length === 0 ? [] : await store.inUse(gone.map(copyId)))
  return gone.filter((id) => !used.has(copyId(id)))
}

async function collectObjects(
  deps: RepositoriesDependencies,
  gone: ReadonlySet<string>,
  removed: number,
  graceMs: number,
): Promise<Collected | null> {
  const { store, workspace, dataDir } = deps
  // Branches whose checkpoints were removed go first.
  await followLedger(deps)
  // Conversations that this database does not know may be another's: what they have stays.
  const others = conversationsOnDisk(dataDir).filter((id) => !gone.has(id))
  const heads = others.flatMap((id) => Object.values(readBranches(dataDir, id)?.heads ?? {}))
  // Before anything is read: what is made from now on is kept in any case.
  const since = Date.now() - graceMs
  const held: string[] = []
  for (const id of deps.workspaceIds()) {
    const pending = await store.pending(id)
    held.push(...[pending?.target ?? [], pending?.safety?.checkpoint_id ?? []].flat())
  }
  const reachable = await store.reachable()
  // A rebuild is under way: not now.
  if (reachable === null) return null
  return await workspace.collect([...reachable, ...heads, ...held], since, removed)
}

/** A working copy with all that is known of it. */
export async function dropCopy(workspace: WorkspaceThread, dataDir: string, id: string): Promise<void> {
  const folder = copyFolder(dataDir, id)
  if (existsSync(folder)) await workspace.copy(id).discard()
  rmSync(folder, { recursive: true, force: true })
  for (const path of [makingMark(dataDir, id), copyLock(dataDir, id)]) rmSync(path, { force: true })
}

function isSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}
