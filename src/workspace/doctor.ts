import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type WorkStore, workStateOf } from '../core/work-sessions.ts'
import { createGit, GitFailed } from '../git/git.ts'
import { openManifest } from '../manifest/manifest.ts'
import { copyWorkspaceId } from '../protocol/ids.ts'
import { rowsUnlessDeleted } from './repositories.ts'
import {
  conversationsOnDisk,
  copiesOnDisk,
  readBranches,
  sizeOfFile,
  sizeOfFolder,
  storeFolder,
} from './repository.ts'
import { listRescued } from './rescued.ts'
import { recordsOf, sizeOfStore } from './store-upkeep.ts'

/** The problems found in a workspace's checkpoints, and how much space they use. */
export interface Examination {
  sizes: Record<string, number>
  conversations: number
  checkpoints: number
  packs: number
  problems: string[]
  /** Information that isn't a problem. */
  notes: string[]
}

export async function examine(deps: {
  store: WorkStore
  workspaceId: string
  dataDir: string
  path: string
  onProgress: (text: string) => void
}): Promise<Examination> {
  const { dataDir, onProgress } = deps
  const store = storeFolder(dataDir)
  const git = createGit({ store, path: deps.path })
  const problems: string[] = []
  const notes: string[] = []
  const checkpoints = await deps.store.reachable()
  const workspaceIds = [
    deps.workspaceId,
    ...copiesOnDisk(dataDir).map((copy) => copyWorkspaceId(deps.workspaceId, copy)),
  ]
  const found = await Promise.all(workspaceIds.map((id) => deps.store.conversations(id)))
  const conversations = found.flat()
  const here = conversations.length > 0 || existsSync(store)
  try {
    if (here && !existsSync(store)) problems.push(`${store} is missing: no checkpoint can be restored`)
    if (existsSync(store)) {
      onProgress('checking every object …')
      await git.run(store, ['fsck', '--full', '--no-dangling', '--no-progress']).catch((error: unknown) => {
        if (!(error instanceof GitFailed)) throw error
        problems.push(`the object store is damaged: ${error.message}`)
      })
      onProgress('checking every checkpoint …')
      problems.push(...(await brokenCheckpoints()))
    }
    problems.push(...(await wrongRepositories()))
    problems.push(...(await leftovers()))
  } finally {
    git.close()
  }
  const { packs, bytes } = sizeOfStore(store)
  const blobs = sizeOfFolder(join(dataDir, 'blobs'))
  const database = ['waymark.db', 'waymark.db-wal'].reduce(
    (sum, name) => sum + sizeOfFile(join(dataDir, name)),
    0,
  )
  const manifest = ['manifest.db', 'manifest.db-wal'].reduce(
    (sum, name) => sum + sizeOfFile(join(dataDir, name)),
    0,
  )
  return {
    sizes: {
      checkpoints: bytes,
      copies: sizeOfFolder(join(dataDir, 'workspaces')),
      database,
      blobs,
      manifest,
    },
    conversations: conversations.length,
    checkpoints: checkpoints?.length ?? 0,
    packs,
    problems,
    notes,
  }

  /** A checkpoint is intact when every object that it reaches exists. */
  async function brokenCheckpoints(): Promise<string[]> {
    const tips = conversationsOnDisk(dataDir).flatMap((id) =>
      Object.values(readBranches(dataDir, id)?.heads ?? {}),
    )
    if (tips.length === 0) return []
    try {
      // A restore also needs the records that the commit messages name.
      const records = await recordsOf(git, store, tips)
      await git.run(
        store,
        ['rev-list', '--objects', '--quiet', '--stdin'],
        `${[...tips, ...records].join('\n')}\n`,
      )
      return []
    } catch (error) {
      return [`a checkpoint can't be restored completely: ${(error as Error).message}`]
    }
  }

  async function wrongRepositories(): Promise<string[]> {
    const wrong: string[] = []
    for (const { tenant, id } of conversations) {
      const rows = await rowsUnlessDeleted(deps.store, tenant, id)
      if (!rows) continue
      const { heads, session } = workStateOf(rows)
      const found = readBranches(dataDir, id)
      const isRight =
        found?.current === session &&
        Object.entries(heads).every(([name, oid]) => found.heads[name] === oid) &&
        Object.keys(found.heads).length === Object.keys(heads).length
      if (!isRight) wrong.push(`the repository of ${id} does not match the ledger; the next start repairs it`)
    }
    return wrong
  }

  async function leftovers(): Promise<string[]> {
    const found: string[] = []
    for (const id of await deps.store.copies(deps.workspaceId)) {
      if (!workspaceIds.includes(id))
        found.push(`the working copy ${id} is missing, but a conversation works in it`)
    }
    for (const id of workspaceIds) {
      const pending = await deps.store.pending(id)
      if (pending) found.push(`a ${pending.kind} is unfinished; a running server finishes it`)
      const failed = await deps.store.failed(id)
      if (failed) {
        found.push(
          `a ${failed.kind} at ${failed.at} could be neither finished nor undone (${failed.reason}); ` +
            `to restore the old files: waymark restore ${failed.safetyCheckpoint?.slice(0, 10)} -c ${failed.conversationId}`,
        )
      }
    }
    const deleted = await deps.store.expiredAmong(conversationsOnDisk(dataDir))
    if (deleted.length > 0) {
      found.push(
        `${deleted.length} deleted conversations still have checkpoints; the hourly collection removes them`,
      )
    }
    for (const { path, file } of listRescued(join(dataDir, 'rescued'))) {
      found.push(
        `${path} was modified while it was being replaced; its last version is ${join(dataDir, file)}`,
      )
    }
    if (existsSync(join(dataDir, 'manifest.db'))) {
      const manifest = openManifest(join(dataDir, 'manifest.db'))
      const failed = manifest.note('watching_failed')
      manifest.close()
      if (failed !== null) {
        found.push(
          `file watching missed changes and is off; turn it on with \`waymark doctor --watch-again\` (${failed})`,
        )
      }
    }
    return found
  }
}

/** Turns file watching on again after it missed a change. */
export function watchAgain(dataDir: string): void {
  const manifest = openManifest(join(dataDir, 'manifest.db'))
  manifest.setNote('watching_failed', null)
  manifest.close()
}
