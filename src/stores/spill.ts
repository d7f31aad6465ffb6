import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import { type DraftText, joinSpilled } from '../core/seal.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'

/** A draft whose JSON is larger than this goes to the blob store. */
export const SPILL_BYTES = 1024 * 1024

const compress = promisify(gzip)
const decompress = promisify(gunzip)

export function asText(draft: FrameDraft): DraftText {
  return { kind: draft.kind, text: JSON.stringify(draft), blob: null }
}

export function isLarge(draft: DraftText): boolean {
  // A character takes three bytes at most, so most texts need no counting.
  return draft.text.length * 3 > SPILL_BYTES && Buffer.byteLength(draft.text) > SPILL_BYTES
}

/** Stores a large draft's text, durably, before any row points to it. */
export async function spill(blobs: BlobStore, draft: DraftText): Promise<DraftText> {
  return { ...draft, blob: await keepText(blobs, draft.text) }
}

/** Stores a text under the SHA-256 of its bytes, durably, and returns that. */
export async function keepText(blobs: BlobStore, text: string): Promise<string> {
  const bytes = Buffer.from(text)
  const key = createHash('sha256').update(bytes).digest('hex')
  await blobs.put(key, await compress(bytes))
  return key
}

/** The whole frame of a row that spilled. */
export async function unspill(blobs: BlobStore, head: string, blob: string): Promise<string> {
  return joinSpilled(head, await readSpilled(blobs, blob))
}

/** What the blob holds must be what was stored. */
export async function readSpilled(blobs: BlobStore, blob: string): Promise<string> {
  const stored = await blobs.get(blob)
  if (!stored) throw new WaymarkError('storage_failed', `The blob ${blob} is missing.`)
  const bytes = await decompress(stored).catch((cause: unknown) => {
    throw new WaymarkError('storage_failed', `The blob ${blob} can not be read.`, { cause })
  })
  if (createHash('sha256').update(bytes).digest('hex') !== blob) {
    throw new WaymarkError('storage_failed', `The blob ${blob} is not what was stored.`)
  }
  return bytes.toString()
}
