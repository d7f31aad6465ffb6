import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createPackWriter, type ObjectType, objectId, type PackWriter } from './pack.ts'

/** The objects that all conversations of a workspace share. We write them; git reads them. */
export interface ObjectStore {
  /** Stores the object unless the store has it, and returns its id. Durable after the next `flush`. */
  put(type: ObjectType, body: Uint8Array): string
  has(oid: string): boolean
  /** Returns a recently put object from memory, without a call to git. */
  recent(oid: string): { type: ObjectType; body: Buffer } | null
  /** Returns false when there was nothing to store. */
  flush(): Promise<boolean>
  /** Discards the objects put since the last flush. */
  discard(): void
  /** Lists the packs again if the folder has changed; returns false when some were removed. */
  refresh(): boolean
  reload(): void
  packCount(): number
}

const INDEX_HEAD = 8 + 1024
const MAX_REMEMBERED = 64 * 1024
const REMEMBERED_BYTES = 24 * 1024 * 1024

export function createObjectStore(objects: string): ObjectStore {
  const folder = join(objects, 'pack')
  mkdirSync(folder, { recursive: true })
  let indexes = new Map<string, Buffer>()
  let lookedAt = ''
  let writer: PackWriter | null = null
  const unwritten = new Set<string>()
  const recent = createRecent()

  function reload(): void {
    recent.clear()
    lookedAt = stateOf(folder)
    indexes = new Map(
      indexNames(folder).map((name) => [name, indexes.get(name) ?? readFileSync(join(folder, name))]),
    )
  }

  function refresh(): boolean {
    if (stateOf(folder) === lookedAt) return true
    const before = [...indexes.keys()]
    reload()
    return before.every((name) => indexes.has(name))
  }

  function discard(): void {
    const unwanted = writer
    writer = null
    unwritten.clear()
    recent.clear()
    unwanted?.discard()
  }

  const has = (oid: string, bytes: Buffer) =>
    unwritten.has(oid) || [...indexes.values()].some((index) => isInIndex(index, bytes))

  reload()
  return {
    has: (oid) => has(oid, Buffer.from(oid, 'hex')),
    put(type, body) {
      const bytes = objectId(type, body)
      const oid = bytes.toString('hex')
      if (body.length <= MAX_REMEMBERED) recent.set(oid, type, body)
      if (has(oid, bytes)) return oid
      writer ??= createPackWriter(folder)
      writer.add(type, bytes, body)
      unwritten.add(oid)
      return oid
    },
    async flush() {
      const finished = writer
      writer = null
      unwritten.clear()
      if (!finished) return false
      const { name, index } = await finished.finish()
      indexes.set(`${name}.idx`, index)
      lookedAt = stateOf(folder)
      return true
    },
    discard,
    reload,
    refresh,
    recent: (oid) => recent.get(oid),
    packCount: () => indexes.size,
  }
}

/** Caches the last objects up to a size limit: the next comparison or restore reads them. */
function createRecent() {
  const known = new Map<string, { type: ObjectType; body: Buffer }>()
  let bytes = 0
  return {
    get: (oid: string) => known.get(oid) ?? null,
    clear(): void {
      known.clear()
      bytes = 0
    },
    set(oid: string, type: ObjectType, body: Uint8Array): void {
      const before = known.get(oid)
      known.delete(oid)
      known.set(oid, before ?? { type, body: Buffer.from(body) })
      if (!before) bytes += body.length
      for (const [oldest, { body: dropped }] of known) {
        if (bytes <= REMEMBERED_BYTES) return
        known.delete(oldest)
        bytes -= dropped.length
      }
    },
  }
}

/** Changes whenever a pack is added or removed. */
function stateOf(folder: string): string {
  const { mtimeNs, ino } = statSync(folder, { bigint: true })
  return `${ino}:${mtimeNs}`
}

export function indexNames(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('pack-') && name.endsWith('.idx'))
}

/** Removes what killed processes left: half-written packs, and packs without an index. */
export function clearLeftovers(objects: string): number {
  const folder = join(objects, 'pack')
  mkdirSync(folder, { recursive: true })
  const names = new Set(readdirSync(folder))
  const left = [...names].filter(
    (name) =>
      name.startsWith('tmp_') ||
      name.startsWith('.tmp-') ||
      name.endsWith('.lock') ||
      (name.endsWith('.pack') && !names.has(name.replace(/\.pack$/, '.idx'))),
  )
  for (const name of left) rmSync(join(folder, name), { force: true })
  return left.length
}

export function isInIndex(index: Buffer, oid: Buffer): boolean {
  const first = oid[0] ?? 0
  let low = first === 0 ? 0 : index.readUInt32BE(8 + (first - 1) * 4)
  let high = index.readUInt32BE(8 + first * 4)
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = INDEX_HEAD + middle * 20
    const order = index.compare(oid, 0, 20, at, at + 20)
    if (order === 0) return true
    if (order < 0) low = middle + 1
    else high = middle
  }
  return false
}
