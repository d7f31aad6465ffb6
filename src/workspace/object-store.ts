import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createPackWriter, type ObjectType, objectId, type PackWriter } from './pack.ts'

/** The objects that all conversations of a workspace share. We write them; git reads them. */
export interface ObjectStore {
  /** Stores the object, unless it is there, and answers its id. Durable with the next `flush`. */
  put(type: ObjectType, body: Uint8Array): string
  has(oid: string): boolean
  flush(): void
  /** Forgets what was put since the last flush. */
  discard(): void
  /** Looks again at what packs there are. */
  reload(): void
  packCount(): number
}

const INDEX_HEAD = 8 + 1024

export function createObjectStore(objects: string): ObjectStore {
  const folder = join(objects, 'pack')
  mkdirSync(folder, { recursive: true })
  let indexes: Buffer[] = []
  let writer: PackWriter | null = null
  const unwritten = new Set<string>()

  function reload(): void {
    indexes = indexNames(folder).map((name) => readFileSync(join(folder, name)))
  }

  function discard(): void {
    const unwanted = writer
    writer = null
    unwritten.clear()
    unwanted?.discard()
  }

  const has = (oid: string, bytes: Buffer) =>
    unwritten.has(oid) || indexes.some((index) => isInIndex(index, bytes))

  reload()
  return {
    has: (oid) => has(oid, Buffer.from(oid, 'hex')),
    put(type, body) {
      const bytes = objectId(type, body)
      const oid = bytes.toString('hex')
      if (has(oid, bytes)) return oid
      writer ??= createPackWriter(folder)
      writer.add(type, bytes, body)
      unwritten.add(oid)
      return oid
    },
    flush() {
      const finished = writer
      writer = null
      unwritten.clear()
      if (finished) indexes.push(finished.finish().index)
    },
    discard,
    reload,
    packCount: () => indexes.length,
  }
}

export function indexNames(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('pack-') && name.endsWith('.idx'))
}

/** What a process that was killed left: half-written packs, and packs that never got their index. */
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

function isInIndex(index: Buffer, oid: Buffer): boolean {
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
