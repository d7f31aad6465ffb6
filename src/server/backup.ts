import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Config } from '../config.ts'
import type { BlobStore } from '../core/blobs.ts'
import { systemClock, timestamp } from '../core/clock.ts'
import { readOrMakeWorkspaceId } from '../data-dir.ts'
import { openObjectStorage, type S3Place } from '../object-storage/s3.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { VERSION } from '../protocol/version.ts'
import { createFolderBlobs } from '../stores/blobs/folder.ts'
import type { Engine } from '../stores/engine.ts'
import { restoreSqlite } from '../stores/sqlite/backup.ts'
import { holdAlone } from '../stores/sqlite/hold-alone.ts'
import { writeOne } from '../stores/write-one.ts'
import type { Verified } from '../workers/verify.ts'
import { fetchPacks } from '../workspace/pack-mirror.ts'
import { verifyLedger } from './offline.ts'
import { programPath } from './project-files.ts'
import { COLLECT_LOCK, openEngine, openStore } from './store.ts'

/**
 * A copy of everything that a server keeps, made while it works. The database first, as it is at one moment; then what it
 * refers to, which only grows meanwhile: no collection runs until the backup is done.
 */

const NOTE = 'backup.json'
const FORMAT = 1
/** Besides the database: what its rows name. A server makes the repositories of conversations again when it starts. */
const FOLDERS = ['blobs', 'store'] as const
const FILES = ['workspace-id'] as const

type Place = Pick<
  Config,
  | 'dataDir'
  | 'databaseUrl'
  | 'objectStorage'
  | 'workspaceId'
  | 'hasWorkspaceId'
  | 'commandEnvironment'
  | 'project'
>

interface Note {
  format: number
  version: string
  engine: 'sqlite' | 'postgres'
  made_at: string
}

export interface Backup {
  folder: string
  files: number
  bytes: number
  verified: Verified
}

export class BackupRefused extends Error {}

export async function makeBackup(
  config: Place,
  folder: string,
  onProgress: (text: string) => void,
): Promise<Backup> {
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new BackupRefused(`${folder} is there already and not empty; name another folder`)
  }
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const release = holdAlone(join(config.dataDir, COLLECT_LOCK))
  if (!release)
    throw new BackupRefused('a collection or another backup is under way; try again when it has ended')
  // Under another name until it is whole: half a backup must not be taken for one.
  const making = `${folder}.making-${randomBytes(4).toString('hex')}`
  mkdirSync(making, { recursive: true, mode: 0o700 })
  try {
    onProgress('copying the database …')
    const engine = await openEngine(config)
    try {
      await engine.backup(making)
    } finally {
      await engine.close()
    }
    const counts = { files: 0, bytes: 0 }
    for (const name of config.objectStorage ? [] : FOLDERS)
      await copyFolder(join(config.dataDir, name), join(making, name), counts, onProgress)
    for (const name of FILES) {
      if (existsSync(join(config.dataDir, name)))
        await copyFile(join(config.dataDir, name), join(making, name))
    }
    if (config.objectStorage) await fetchObjects(config, config.objectStorage, making, counts, onProgress)
    const note: Note = {
      format: FORMAT,
      version: VERSION,
      engine: config.databaseUrl === null ? 'sqlite' : 'postgres',
      made_at: timestamp(systemClock.now()),
    }
    await writeFile(join(making, NOTE), `${JSON.stringify(note, null, 2)}\n`)
    const verified =
      note.engine === 'sqlite' ? await verifyCopy(making, onProgress) : await verifyBlobs(config, making)
    if (existsSync(folder)) await rm(folder, { recursive: true })
    await rename(making, folder)
    return { folder, ...counts, verified }
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    throw error
  } finally {
    release()
  }
}

/** Into a place that has no ledger yet. Readers that had seen more than the backup has learn where to cut (L7). */
export async function restoreBackup(
  config: Place,
  folder: string,
  onProgress: (text: string) => void,
): Promise<{ note: Note; conversations: number; verified: Verified }> {
  const note = await readNote(folder)
  const wanted = config.databaseUrl === null ? 'sqlite' : 'postgres'
  if (note.engine !== wanted) {
    throw new BackupRefused(
      `${folder} is a backup of ${note.engine}; this is ${wanted}. Export and import move data between engines`,
    )
  }
  if (existsSync(join(config.dataDir, 'waymark.db')) || existsSync(join(config.dataDir, 'blobs'))) {
    throw new BackupRefused(
      `${config.dataDir} has a ledger already; name an empty --data-dir, or move that one away`,
    )
  }
  if (config.objectStorage) await assertUnused(config.objectStorage)
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const counts = { files: 0, bytes: 0 }
  // With object storage, checkpoints go there with the server's next one.
  for (const name of config.objectStorage ? (['store'] as const) : FOLDERS)
    await copyFolder(join(folder, name), join(config.dataDir, name), counts, onProgress)
  for (const name of FILES) {
    if (existsSync(join(folder, name))) await copyFile(join(folder, name), join(config.dataDir, name))
  }
  onProgress('restoring the database …')
  if (note.engine === 'sqlite') await restoreSqlite(folder, join(config.dataDir, 'waymark.db'))
  const engine = await openEngine(config)
  try {
    if (note.engine === 'postgres') await engine.restore(folder)
    const conversations = await renewHeads(engine)
    const store = await openStore(config)
    if (config.objectStorage)
      await sendBlobs(createFolderBlobs(join(folder, 'blobs')), store.blobs, onProgress)
    const verified = await verifyLedger(store.upkeep, ({ events }) =>
      onProgress(`checking: ${events} events …`),
    )
    await store.close()
    return { note, conversations, verified }
  } finally {
    await engine.close()
  }
}

/** Blobs and packs of all processes, from object storage into the backup's own folders. */
async function fetchObjects(
  config: Place,
  storage: S3Place,
  making: string,
  counts: { files: number; bytes: number },
  onProgress: (text: string) => void,
): Promise<void> {
  const store = await openStore(config)
  try {
    await sendBlobs(store.blobs, createFolderBlobs(join(making, 'blobs')), onProgress)
  } finally {
    await store.close()
  }
  onProgress('fetching the checkpoints …')
  const workspaceId = await readOrMakeWorkspaceId(config.dataDir, config)
  await fetchPacks(making, { path: programPath(config), storage, workspaceId })
  for (const name of FOLDERS) countFiles(join(making, name), counts)
}

function countFiles(folder: string, counts: { files: number; bytes: number }): void {
  for (const path of existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []) {
    const found = statSync(join(folder, path))
    if (!found.isFile()) continue
    counts.files++
    counts.bytes += found.size
  }
}

async function sendBlobs(from: BlobStore, to: BlobStore, onProgress: (text: string) => void): Promise<void> {
  let count = 0
  for await (const key of from.keys()) {
    const bytes = await from.get(key)
    // Collected since it was listed.
    if (!bytes) continue
    await to.put(key, bytes)
    if (++count % 100 === 0) onProgress(`copying: ${count.toLocaleString('en')} blobs …`)
  }
}

/** Two databases that take each other's blobs for their own would delete them. */
async function assertUnused(place: S3Place): Promise<void> {
  const storage = await openObjectStorage(place)
  try {
    for await (const { key } of storage.list('')) {
      throw new BackupRefused(
        `s3://${place.bucket}/${place.prefix} is in use already (${key}); name another prefix`,
      )
    }
  } finally {
    storage.close()
  }
}

async function renewHeads(engine: Engine): Promise<number> {
  let count = 0
  for (let after = ''; ; ) {
    const found = await engine.read('livingConversations', { after, limit: 200 })
    const last = found.at(-1)
    if (!last) return count
    for (const { tenant, id } of found) {
      const now = systemClock.now()
      const command = {
        tenant,
        conversationId: id as ConversationId,
        newSegmentId: newId('seg', now),
        by: 'restore-backup',
        now,
      }
      await writeOne(engine, 'renewHead', command)
      count++
    }
    after = last.id
  }
}

async function readNote(folder: string): Promise<Note> {
  const text = await readFile(join(folder, NOTE), 'utf8').catch(() => {
    throw new BackupRefused(`${folder} is no backup: it has no ${NOTE}`)
  })
  const note = JSON.parse(text) as Note
  if (note.format === FORMAT) return note
  throw new BackupRefused(
    `${folder} has the format ${note.format}, which this version does not know; it was made by ${note.version}`,
  )
}

/** Packs are joined now and then: files that have gone while we copied are in others by then. */
async function copyFolder(
  from: string,
  to: string,
  counts: { files: number; bytes: number },
  onProgress: (text: string) => void,
): Promise<void> {
  for (let missed = 1; missed > 0; ) {
    missed = 0
    for (const path of existsSync(from) ? readdirSync(from, { recursive: true, encoding: 'utf8' }) : []) {
      const target = join(to, path)
      const found = statSync(join(from, path), { throwIfNoEntry: false })
      if (!found?.isFile() || existsSync(target) || path.split('/').some((part) => part.startsWith('.')))
        continue
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      try {
        await copyFile(join(from, path), target)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        missed++
        continue
      }
      counts.files++
      counts.bytes += found.size
      if (counts.files % 100 === 0) onProgress(`copying: ${counts.files.toLocaleString('en')} files …`)
    }
  }
}

/** A backup that can't be restored is none: it is opened as a store and checked to the last digest. */
async function verifyCopy(folder: string, onProgress: (text: string) => void): Promise<Verified> {
  const scratch = `${folder}-checked`
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  try {
    // Opening writes to the file, so a copy of it is opened.
    await copyFile(join(folder, 'waymark.db'), join(scratch, 'waymark.db'))
    const store = await openStore(
      { dataDir: scratch, databaseUrl: null, objectStorage: null },
      { blobsIn: join(folder, 'blobs') },
    )
    const verified = await verifyLedger(store.upkeep, ({ events }) =>
      onProgress(`checking: ${events} events …`),
    )
    await store.close()
    return verified
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** The rows are checked when they are restored; until then, that every blob that they name is in the backup. */
async function verifyBlobs(config: Place, folder: string): Promise<Verified> {
  const store = await openStore(config, { blobsIn: join(folder, 'blobs') })
  const verified: Verified = { segments: 0, events: 0, contents: 0, flaws: [], damaged: [] }
  for await (const { key, flaw } of store.upkeep.contents()) {
    verified.contents++
    if (flaw !== null) verified.damaged.push({ key, flaw })
  }
  await store.close()
  return verified
}
