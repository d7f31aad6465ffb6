import { rmSync } from 'node:fs'
import { type WorkStore, workStateOf } from '../core/work-sessions.ts'
import {
  clearLocks,
  conversationFolder,
  conversationsOnDisk,
  readBranches,
  writeBranches,
} from './repository.ts'
import type { Collected } from './store-upkeep.ts'
import type { Workspace } from './workspace.ts'

/** Looks after all conversations' repositories of a workspace. */

export interface RepositoriesDependencies {
  store: WorkStore
  workspace: Workspace
  workspaceId: string
  dataDir: string
}

/** A checkpoint's frame is stored within this time, or the message that it was made for is not. */
const GRACE_MS = 10 * 60 * 1000

/** Makes every repository say what the ledger says; answers how many did not. */
export async function followLedger({
  store,
  workspaceId,
  dataDir,
}: RepositoriesDependencies): Promise<number> {
  let wrong = 0
  for (const id of conversationsOnDisk(dataDir)) clearLocks(dataDir, id)
  for (const { tenant, id } of await store.conversations(workspaceId)) {
    const before = readBranches(dataDir, id)
    const { heads, session } = workStateOf(await store.rows(tenant, id))
    if (before && before.current === session && isSame(before.heads, heads)) continue
    // Another process may have moved it since: then it says what is right already.
    const now = readBranches(dataDir, id)
    if (JSON.stringify(now) !== JSON.stringify(before)) continue
    writeBranches(dataDir, id, { heads, current: session })
    wrong++
  }
  return wrong
}

/** Drops the repositories of deleted conversations, and the objects that nobody reaches any more. */
export async function dropDeleted(
  deps: RepositoriesDependencies,
  graceMs: number = GRACE_MS,
): Promise<Collected | null> {
  const { store, workspace, workspaceId, dataDir } = deps
  const onDisk = conversationsOnDisk(dataDir)
  const deleted = new Set(await store.deletedAmong(onDisk))
  if (deleted.size === 0) return null
  // Conversations that this database does not know may be another's: what they have stays.
  const others = onDisk.filter((id) => !deleted.has(id))
  const heads = others.flatMap((id) => Object.values(readBranches(dataDir, id)?.heads ?? {}))
  // Before anything is read: what is made from now on is kept in any case.
  const since = Date.now() - graceMs
  const pending = await store.pending(workspaceId)
  const held = [pending?.target ?? [], pending?.safety?.checkpoint_id ?? []].flat()
  const collected = await workspace.collect([...(await store.reachable()), ...heads, ...held], since)
  for (const id of deleted) rmSync(conversationFolder(dataDir, id), { recursive: true, force: true })
  return collected
}

function isSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}
