import { gunzipSync, gzipSync } from 'node:zlib'
import type { Entry } from '../core/request-plan.ts'

/** Packs older entries of a history for storage. */
export function packEntries(entries: readonly Entry[]): Uint8Array {
  return gzipSync(JSON.stringify(entries))
}

export function unpackEntries(chunks: readonly Uint8Array[]): Entry[] {
  return chunks.flatMap((bytes) => JSON.parse(gunzipSync(bytes).toString()) as Entry[])
}
