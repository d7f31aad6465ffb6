import { existsSync, rmSync } from 'node:fs'
import type { CollectionStore } from '../core/collection.ts'
import { type WorkRows, type WorkStore, workStateOf } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { MANY_MIRRORED } from './pack-mirror.ts'
import {
  clearLocks,
  commitsOfBase,
  conversationFolder,
  conversationsOnDisk,
  copiesOnDisk,
  copyBaseFile,
  copyFolder,
  copyLock,
  makingMark,
  readBranches,
  readCopyBase,
  sizeOfFolder,
  writeBranches,
} from './repository.ts'
import type { Collected } from './store-upkeep.ts'
import type { WorkspaceThread } from './workspace-thread.ts'

/** Maintains the repositories of all conversations in a workspace. */

export interface RepositoriesDependencies {
  store: WorkStore & Pick<CollectionStore, 'checkpointsRemoved'>
  workspace: WorkspaceThread
  /** The workspaces on this machine: the project's own, and those of conversations with a working copy. */
  workspaceIds(): string[]
  /** Returns the workspace id of a conversation's working copy. */
  copyId(conversationId: string): string
  dataDir: string
}

/** A checkpoint's frame is stored within this time; otherwise its message isn't stored either. */
const GRACE_MS = 10 * 60 * 1000

async function conversationsIn(store: WorkStore, workspaceIds: readonly string[]) {
  const found = await Promise.all(workspaceIds.map((id) => store.conversations(id)))
  return found.flat()
}

/** Updates every repository to match the ledger; returns how many did not match. */
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
    // If another process has moved the branches since, they already match.
    const now = readBranches(dataDir, id)
    if (JSON.stringify(now) !== JSON.stringify(before)) continue
    writeBranches(dataDir, id, { heads, current: session })
    wrong++
  }
  return wrong
}

/** Returns null for a conversation that was deleted after it was listed. */
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

/** Drops the files of expired conversations and unreachable objects; returns the bytes freed. */
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

/** Working copies of expired conversations that no other conversation works in. */
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
  // First drop the branches whose checkpoints were removed.
  await followLedger(deps)
  // Conversations that this database doesn't know may belong to another one: keep their checkpoints.
  const others = conversationsOnDisk(dataDir).filter((id) => !gone.has(id))
  const heads = others.flatMap((id) => Object.values(readBranches(dataDir, id)?.heads ?? {}))
  // Set before any read, so that everything created from now on is kept.
  const since = Date.now() - graceMs
  const held: string[] = []
  for (const id of deps.workspaceIds()) {
    const pending = await store.pending(id)
    held.push(...[pending?.target ?? [], pending?.safety?.checkpoint_id ?? []].flat())
  }
  const reachable = await store.reachable()
  // A rebuild is in progress; a later collection retries.
  if (reachable === null) return null
  const bases = copiesOnDisk(dataDir).flatMap((copy) => {
    const base = readCopyBase(dataDir, copy)
    return base ? commitsOfBase(base) : []
  })
  return await workspace.collect([...reachable, ...heads, ...held, ...bases], since, removed)
}

/** Drops a working copy and everything recorded about it. */
export async function dropCopy(workspace: WorkspaceThread, dataDir: string, id: string): Promise<void> {
  const folder = copyFolder(dataDir, id)
  if (existsSync(folder)) await workspace.copy(id).discard()
  rmSync(folder, { recursive: true, force: true })
  const next = [makingMark(dataDir, id), copyLock(dataDir, id), copyBaseFile(dataDir, id)]
  for (const path of next) rmSync(path, { force: true })
}

function isSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}
