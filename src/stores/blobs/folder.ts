import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { BlobStore } from '../../core/blobs.ts'

/** Suffix of a blob that is being deleted. */
const ASIDE = '.deleting'
const HALF_WRITTEN_MS = 60 * 60 * 1000

/** Blobs as files, `ab/abcdef…`: written to a temporary file, synced and renamed, so a blob's file is always complete. */
export function createFolderBlobs(folder: string): BlobStore {
  const folderOf = (key: string) => join(folder, key.slice(0, 2))
  const pathOf = (key: string) => join(folderOf(key), key)
  const asideOf = (key: string) => join(folderOf(key), `.${key}${ASIDE}`)
  /** The folders known to be made and synced. */
  const synced = new Set<string>()

  async function makeFolder(path: string): Promise<void> {
    if (synced.has(path)) return
    await mkdir(path, { recursive: true })
    // Sync even if it existed: the process that made it may have died before its own sync.
    await syncFolder(folder)
    synced.add(path)
  }

  return {
    async put(key, bytes) {
      await makeFolder(folderOf(key))
      try {
        if (!(await isTouched(pathOf(key)))) await writeWhole(folderOf(key), key, bytes)
        // Sync even if the blob existed, for the same reason.
        await syncFolder(folderOf(key))
      } catch (error) {
        // Another process may have removed the folder: make it again next time.
        synced.delete(folderOf(key))
        throw error
      }
    },
    async get(key) {
      const found = await readFile(pathOf(key)).catch(nullIfMissing)
      if (found) return found
      // A deletion is in progress or was interrupted: restore the blob.
      await rename(asideOf(key), pathOf(key)).catch(nullIfMissing)
      return await readFile(pathOf(key)).catch(nullIfMissing)
    },
    async delete(key, putBefore = Infinity) {
      const aside = asideOf(key)
      // Rename first: a later `put` writes a new file, and an earlier one shows in the modification time.
      await rename(pathOf(key), aside).catch(nullIfMissing)
      const found = await stat(aside).catch(nullIfMissing)
      if (!found) return false
      if (found.mtimeMs >= putBefore) {
        await rename(aside, pathOf(key)).catch(nullIfMissing)
        return false
      }
      await rm(aside, { force: true })
      return true
    },
    async *keys(putBefore) {
      const folders = (await readdir(folder).catch(nullIfMissing)) ?? []
      for (const name of folders.sort()) {
        if (name.startsWith('.')) continue
        const files = await readdir(join(folder, name))
        for (const file of files.sort()) {
          const path = join(folder, name, file)
          const isAside = file.endsWith(ASIDE)
          if (file.startsWith('.') && !isAside) {
            // A partial write left by a process that died.
            if (await isOlder(path, Date.now() - HALF_WRITTEN_MS)) await rm(path, { force: true })
            continue
          }
          if (putBefore !== undefined && !(await isOlder(path, putBefore))) continue
          yield isAside ? file.slice(1, -ASIDE.length) : file
        }
      }
    },
  }
}

async function writeWhole(folder: string, key: string, bytes: Uint8Array): Promise<void> {
  const aside = join(folder, `.${key}.${randomBytes(6).toString('hex')}`)
  try {
    await writeSynced(aside, bytes)
    await rename(aside, join(folder, key))
  } catch (error) {
    await rm(aside, { force: true })
    throw error
  }
}

async function writeSynced(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'wx')
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Updates the file's time, so that it counts as put just now; false if the file doesn't exist. */
async function isTouched(path: string): Promise<boolean> {
  const now = new Date()
  return (await utimes(path, now, now).then(() => true, nullIfMissing)) !== null
}

async function isOlder(path: string, than: number): Promise<boolean> {
  const found = await stat(path).catch(nullIfMissing)
  return found !== null && found.mtimeMs < than
}

function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}
