import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip, gzipSync, type ZlibOptions } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import { type DraftText, joinSpilled } from '../core/seal.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'

/** A draft whose JSON is larger than this goes to the blob store. */
export const SPILL_BYTES = 1024 * 1024

/** Takes a quarter of the default level's time, for 7 % more bytes. */
const COMPRESSION = { level: 3 }
/** To compress a smaller text here is faster than to pass it to another thread. */
const ASYNC_FROM_BYTES = 64 * 1024

const compress = promisify<Buffer, ZlibOptions, Buffer>(gzip)
const decompress = promisify(gunzip)

export function asText(draft: FrameDraft): DraftText {
  return { kind: draft.kind, text: JSON.stringify(draft), blob: null }
}

export function isLarge(draft: DraftText): boolean {
  // A UTF-16 code unit takes at most three bytes, so the cheap check settles most texts.
  return draft.text.length * 3 > SPILL_BYTES && Buffer.byteLength(draft.text) > SPILL_BYTES
}

/** Stores a large draft's text durably, before any row points to it. */
export async function spill(blobs: BlobStore, draft: DraftText): Promise<DraftText> {
  return { ...draft, blob: await keepText(blobs, draft.text) }
}

/** Stores a text durably under the SHA-256 of its bytes and returns that key. */
export async function keepText(blobs: BlobStore, text: string): Promise<string> {
  const bytes = Buffer.from(text)
  const key = hash('sha256', bytes)
  const isSmall = bytes.length < ASYNC_FROM_BYTES
  await blobs.put(key, isSmall ? gzipSync(bytes, COMPRESSION) : await compress(bytes, COMPRESSION))
  return key
}

/** Reassembles the full frame of a spilled row. */
export async function unspill(blobs: BlobStore, head: string, blob: string): Promise<string> {
  return joinSpilled(head, await readSpilled(blobs, blob))
}

/** Reads a blob and checks it against its SHA-256. */
export async function readSpilled(blobs: BlobStore, blob: string): Promise<string> {
  const stored = await blobs.get(blob)
  if (!stored) throw new WaymarkError('storage_failed', `The blob ${blob} is missing.`)
  const bytes = await decompress(stored).catch((cause: unknown) => {
    throw new WaymarkError('storage_failed', `The blob ${blob} can't be read.`, { cause })
  })
  if (hash('sha256', bytes) !== blob) {
    throw new WaymarkError('storage_failed', `The blob ${blob} doesn't match its SHA-256.`)
  }
  return bytes.toString()
}
