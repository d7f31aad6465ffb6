import type { BlobStore } from '../../core/blobs.ts'
import { type ObjectStorage, ObjectStorageFailed } from '../../object-storage/s3.ts'
import { WaymarkError } from '../../protocol/errors.ts'

/**
 * Blobs in an S3-compatible store, as `blobs/ab/abcdef….<hour>`. The name includes the hour of the put because S3 has no
 * conditional delete: a put relies only on a copy from the current hour, and the collector deletes only copies from past
 * hours, so a deletion never hits a blob that a writer has just put. Content that is put again hours later has a second
 * copy for a while.
 */
export function createS3Blobs(storage: ObjectStorage, now: () => number = Date.now): BlobStore {
  return {
    put: (key, bytes) =>
      translated(async () => {
        const name = `${prefixOf(key)}${hourOf(now())}`
        if (!(await storage.has(name))) await storage.putIfAbsent(name, bytes)
      }),
    get: (key) =>
      translated(async () => {
        const names = (await copiesOf(storage, key)).map((copy) => copy.name)
        const newest = names.at(-1)
        return newest === undefined ? null : await storage.get(newest)
      }),
    delete: (key, putBefore = Infinity) =>
      translated(async () => {
        const copies = await copiesOf(storage, key)
        if (copies.length === 0 || !copies.every((copy) => isOlder(copy, putBefore))) return false
        for (const { name } of copies) await storage.delete(name)
        return true
      }),
    async *keys(putBefore = Infinity) {
      let key: string | null = null
      let isOld = true
      for await (const { key: name, modifiedAt } of storage.list(ROOT)) {
        const copy = parseName(name, modifiedAt)
        if (!copy) continue
        if (key !== null && key !== copy.key) {
          if (isOld) yield key
          isOld = true
        }
        key = copy.key
        isOld &&= isOlder(copy, putBefore)
      }
      if (key !== null && isOld) yield key
    },
  }
}

const ROOT = 'blobs/'
const STORES = 'stores/'
const HOUR_MS = 60 * 60 * 1000

interface Copy {
  key: string
  name: string
  hour: number
  modifiedAt: number
}

/** Records that a database refers to these blobs; the returned function checks whether it is the only one. */
export async function claimS3Blobs(storage: ObjectStorage, storeId: string): Promise<() => Promise<boolean>> {
  await translated(() => storage.putIfAbsent(`${STORES}${storeId}`, Buffer.alloc(0)))
  return () =>
    translated(async () => {
      for await (const { key } of storage.list(STORES)) if (key !== `${STORES}${storeId}`) return false
      return true
    })
}

function prefixOf(key: string): string {
  return `${ROOT}${key.slice(0, 2)}/${key}.`
}

function hourOf(time: number): number {
  return Math.floor(time / HOUR_MS)
}

function isOlder({ hour, modifiedAt }: Copy, than: number): boolean {
  return (hour + 1) * HOUR_MS <= than && modifiedAt < than
}

/** Oldest first. */
async function copiesOf(storage: ObjectStorage, key: string): Promise<Copy[]> {
  const copies: Copy[] = []
  for await (const { key: name, modifiedAt } of storage.list(prefixOf(key))) {
    const copy = parseName(name, modifiedAt)
    if (copy?.key === key) copies.push(copy)
  }
  return copies.sort((a, b) => a.hour - b.hour)
}

/** Null for an object that isn't a blob. */
function parseName(name: string, modifiedAt: number): Copy | null {
  const [, key, hour] = /^blobs\/[0-9a-f]{2}\/([0-9a-f]{64})\.(\d{1,9})$/.exec(name) ?? []
  return key === undefined ? null : { key, name, hour: Number(hour), modifiedAt }
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ObjectStorageFailed)) throw error
    throw new WaymarkError('storage_failed', `The blob store failed: ${error.message}`, { cause: error })
  }
}
