import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Config } from '../config.ts'
import type { BlobStore } from '../core/blobs.ts'
import { timestamp } from '../core/clock.ts'
import { readOrMakeWorkspaceId } from '../data-dir.ts'
import { holdAlone } from '../file-lock/hold-alone.ts'
import { openObjectStorage, type S3Place } from '../object-storage/s3.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { VERSION } from '../protocol/version.ts'
import { createFolderBlobs } from '../stores/blobs/folder.ts'
import { createDatabase, type Database } from '../stores/database.ts'
import { restoreSqlite } from '../stores/sqlite/backup.ts'
import type { Verified } from '../workers/verify.ts'
import { fetchPacks } from '../workspace/pack-mirror.ts'
import { programPath } from './commands.ts'
import { verifyLedger } from './offline.ts'
import { COLLECT_LOCK, openEngine, openStore } from './store.ts'
import { systemClock } from './system-clock.ts'

/**
 * A copy of everything that a server stores, made while it runs. The database is copied first, as of one moment, then
 * the data it refers to, which only grows meanwhile: no collection runs until the backup is done.
 */

const NOTE = 'backup.json'
const FORMAT = 1
/** Data that the database's rows refer to. The server recreates the conversations' repositories when it starts. */
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
    throw new BackupRefused(`${folder} already exists and is not empty; choose another folder`)
  }
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const release = holdAlone(join(config.dataDir, COLLECT_LOCK))
  if (!release)
    throw new BackupRefused('a collection or another backup is in progress; try again when it has ended')
  // Use another name until it is complete: half a backup must not be mistaken for one.
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

/** Restores into a place without a ledger. Readers that are ahead of the backup receive a cut (L7). */
export async function restoreBackup(
  config: Place,
  folder: string,
  onProgress: (text: string) => void,
): Promise<{ note: Note; conversations: number; verified: Verified }> {
  const note = await readNote(folder)
  const wanted = config.databaseUrl === null ? 'sqlite' : 'postgres'
  if (note.engine !== wanted) {
    throw new BackupRefused(
      `${folder} is a backup of ${note.engine}, but this is ${wanted}; use export and import instead`,
    )
  }
  if (existsSync(join(config.dataDir, 'waymark.db')) || existsSync(join(config.dataDir, 'blobs'))) {
    throw new BackupRefused(
      `${config.dataDir} already has a ledger; choose an empty --data-dir, or move this one away`,
    )
  }
  if (config.objectStorage) await assertUnused(config.objectStorage)
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const counts = { files: 0, bytes: 0 }
  // With object storage, the server uploads the checkpoints when it takes its next one.
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
    const conversations = await renewHeads(createDatabase({ engine }))
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

/** Downloads the blobs and packs of all processes from object storage to the backup's folders. */
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

/** Two databases that share a prefix would delete each other's blobs. */
async function assertUnused(place: S3Place): Promise<void> {
  const storage = await openObjectStorage(place)
  try {
    for await (const { key } of storage.list('')) {
      throw new BackupRefused(
        `s3://${place.bucket}/${place.prefix} is already in use (${key}); choose another prefix`,
      )
    }
  } finally {
    storage.close()
  }
}

async function renewHeads(database: Database): Promise<number> {
  let count = 0
  for (let after = ''; ; ) {
    const found = await database.read('livingConversations', { after, limit: 200 })
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
      await database.write('renewHead', command)
      count++
    }
    after = last.id
  }
}

async function readNote(folder: string): Promise<Note> {
  const text = await readFile(join(folder, NOTE), 'utf8').catch(() => {
    throw new BackupRefused(`${folder} is not a backup: it has no ${NOTE}`)
  })
  const note = JSON.parse(text) as Note
  if (note.format === FORMAT) return note
  throw new BackupRefused(
    `${folder} has format ${note.format}, which this version does not support; it was made by ${note.version}`,
  )
}

/** Packs are merged now and then: a file that disappears during the copy is in another pack by then, so look again. */
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

/** A backup must be restorable: opens it as a store and verifies it to the last digest. */
async function verifyCopy(folder: string, onProgress: (text: string) => void): Promise<Verified> {
  const scratch = `${folder}-checked`
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  try {
    // Opening writes to the file, so open a copy of it.
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

/** Verifies that the backup has every blob its rows name; the rows themselves are verified when they are restored. */
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
