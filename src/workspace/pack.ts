import { createHash, hash, randomBytes } from 'node:crypto'
import { closeSync, fsync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32, deflateSync, type ZlibOptions } from 'node:zlib'

/** Writes git packs: any number of objects in one file, made durable with two syncs. */

export type ObjectType = 'commit' | 'tree' | 'blob'

const typeNumbers: Record<ObjectType, number> = { commit: 1, tree: 2, blob: 3 }
const BUFFER_BYTES = 8 * 1024 * 1024
const HEADER_BYTES = 12
const LARGE_OFFSET = 0x8000_0000
/** Fast, and within a few percent of git's own level for source code. */
const LEVEL = 1
const FEW = 200
const SMALL = 16 * 1024

const syncFile = promisify(fsync)

interface Entry {
  oid: Buffer
  crc: number
  offset: number
}

export interface PackWriter {
  add(type: ObjectType, oid: Buffer, body: Uint8Array): void
  count(): number
  /** Makes the pack durable and visible, and returns its name and its index. */
  finish(): Promise<{ name: string; index: Buffer }>
  discard(): void
}

/** Git's id of the object. */
export function objectId(type: ObjectType, body: Uint8Array): Buffer {
  const head = Buffer.from(`${type} ${body.length}\0`)
  if (body.length < 65_536) return hash('sha1', Buffer.concat([head, body]), 'buffer')
  return createHash('sha1').update(head).update(body).digest()
}

/** `folder` is the `pack` folder of an object store. */
export function createPackWriter(folder: string): PackWriter {
  const aside = join(folder, `tmp_pack_${randomBytes(8).toString('hex')}`)
  const entries: Entry[] = []
  let pending: Uint8Array[] = [Buffer.alloc(HEADER_BYTES)]
  let pendingBytes = HEADER_BYTES
  let size = HEADER_BYTES
  let file: number | null = null
  let isOver = false

  function push(bytes: Uint8Array): void {
    pending.push(bytes)
    pendingBytes += bytes.length
    size += bytes.length
  }

  function spill(): number {
    file ??= openSync(aside, 'wx+', 0o444)
    writeAll(file, Buffer.concat(pending))
    pending = []
    pendingBytes = 0
    return file
  }

  function checksum(): Buffer {
    const header = Buffer.from('PACK\0\0\0\u0002\0\0\0\0', 'latin1')
    header.writeUInt32BE(entries.length, 8)
    const digest = createHash('sha1').update(header)
    if (file === null) {
      pending[0] = header
      for (const bytes of pending.slice(1)) digest.update(bytes)
      return digest.digest()
    }
    spill()
    // The number of objects was unknown when the first ones were written.
    writeSync(file, header, 0, HEADER_BYTES, 0)
    const piece = Buffer.allocUnsafe(BUFFER_BYTES)
    for (let at = HEADER_BYTES; at < size; ) {
      const read = readSync(file, piece, 0, piece.length, at)
      if (read === 0) throw new Error('a pack was truncated while it was being written')
      digest.update(piece.subarray(0, read))
      at += read
    }
    return digest.digest()
  }

  function discard(): void {
    isOver = true
    pending = []
    try {
      if (file !== null) closeSync(file)
      rmSync(aside, { force: true })
      rmSync(`${aside}.idx`, { force: true })
    } catch {
      // The next start removes the leftovers; the error that led here must not be hidden.
    }
    file = null
  }

  return {
    count: () => entries.length,
    add(type, oid, body) {
      if (isOver) throw new Error('this pack is finished')
      const head = entryHeader(type, body.length)
      const data = deflateSync(body, optionsFor(body.length, entries.length))
      entries.push({ oid, crc: crc32(data, crc32(head)), offset: size })
      push(head)
      push(data)
      if (pendingBytes > BUFFER_BYTES) spill()
    },
    async finish() {
      if (isOver) throw new Error('this pack is finished')
      isOver = true
      let indexFile: number | null = null
      try {
        const sum = checksum()
        push(sum)
        const open = spill()
        const name = `pack-${sum.toString('hex')}`
        const index = indexOf(entries, sum)
        indexFile = openSync(`${aside}.idx`, 'wx', 0o444)
        writeAll(indexFile, index)
        // Sync both at once, so that the file system makes them durable in one step.
        await Promise.all([syncFile(open), syncFile(indexFile)])
        // Git detects a pack by its index, so the index comes last.
        renameSync(aside, join(folder, `${name}.pack`))
        renameSync(`${aside}.idx`, join(folder, `${name}.idx`))
        syncFolder(folder)
        return { name, index }
      } catch (error) {
        discard()
        throw error
      } finally {
        if (indexFile !== null) closeSync(indexFile)
        if (file !== null) closeSync(file)
        file = null
      }
    },
    discard,
  }
}

/**
 * A few small objects are stored uncompressed: compressing them would take most of a checkpoint's time, and git does it when
 * packs are joined. For others, the first output chunk fits most results; further chunks cost a third of the time.
 */
function optionsFor(length: number, before: number): ZlibOptions {
  if (before < FEW && length < SMALL) return { level: 0, memLevel: 1, windowBits: 9, chunkSize: length + 64 }
  return { level: LEVEL, chunkSize: Math.min(Math.max(length, 256), 65_536) }
}

/** Type and length, seven bits per byte, lowest first. */
function entryHeader(type: ObjectType, length: number): Buffer {
  const bytes: number[] = []
  let byte = (typeNumbers[type] << 4) | (length & 15)
  for (let rest = Math.floor(length / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.push(byte | 0x80)
    byte = rest & 0x7f
  }
  bytes.push(byte)
  return Buffer.from(bytes)
}

/** Git's index, version 2. */
function indexOf(entries: readonly Entry[], packSum: Buffer): Buffer {
  const sorted = [...entries].sort((a, b) => Buffer.compare(a.oid, b.oid))
  const large = sorted.filter((entry) => entry.offset >= LARGE_OFFSET)
  const n = sorted.length
  const index = Buffer.alloc(8 + 1024 + n * 28 + large.length * 8 + 40)
  index.writeUInt32BE(0xff74_4f63, 0)
  index.writeUInt32BE(2, 4)
  const oids = 8 + 1024
  const crcs = oids + n * 20
  const offsets = crcs + n * 4
  const larges = offsets + n * 4
  let largeCount = 0
  let upTo = 0
  for (let first = 0; first < 256; first++) {
    while (upTo < n && (sorted[upTo]?.oid[0] ?? 0) <= first) upTo++
    index.writeUInt32BE(upTo, 8 + first * 4)
  }
  for (const [i, { oid, crc, offset }] of sorted.entries()) {
    oid.copy(index, oids + i * 20)
    index.writeUInt32BE(crc, crcs + i * 4)
    if (offset < LARGE_OFFSET) index.writeUInt32BE(offset, offsets + i * 4)
    else {
      index.writeUInt32BE(LARGE_OFFSET + largeCount, offsets + i * 4)
      index.writeBigUInt64BE(BigInt(offset), larges + largeCount * 8)
      largeCount++
    }
  }
  const end = index.length - 40
  packSum.copy(index, end)
  hash('sha1', index.subarray(0, end + 20), 'buffer').copy(index, end + 20)
  return index
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at)
}

export function syncFolder(folder: string): void {
  const open = openSync(folder, 'r')
  try {
    fsyncSync(open)
  } finally {
    closeSync(open)
  }
}
