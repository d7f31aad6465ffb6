import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import type { EventRecord, Upkeep } from '../core/upkeep.ts'
import type { Database } from './database.ts'
import { readSpilled, unspill } from './spill.ts'
import type { Schema } from './sql/schema.ts'

const SEGMENTS_AT_ONCE = 200
const EVENTS_AT_ONCE = 200
const CONTENTS_AT_ONCE = 100

export function createUpkeep({ database, blobs }: { database: Database; blobs: BlobStore }): Upkeep {
  async function asRecord(row: Schema['events']): Promise<EventRecord> {
    const frame =
      row.blob === null
        ? row.frame
        : await unspill(blobs, row.frame, row.blob).catch((error: unknown) => error as Error)
    return { seq: row.seq, bytesBefore: row.bytes_before, digest: row.digest, frame }
  }

  async function blobFlaw(key: string): Promise<string | null> {
    return await readSpilled(blobs, key).then(
      () => null,
      (error: unknown) => (error as Error).message,
    )
  }

  return {
    async *segments({ onlyUnprojected = false } = {}) {
      for (let after = 0; ; ) {
        const rows = await database.read('segmentsAfter', { after, limit: SEGMENTS_AT_ONCE, onlyUnprojected })
        yield* rows
        const last = rows.at(-1)
        if (!last) return
        after = last.segment
      }
    },
    async *events(segment, after, to) {
      while (after < to) {
        const limit = Math.min(EVENTS_AT_ONCE, to - after)
        const rows = await database.read('eventsAfter', { segment, after, limit })
        for (const row of rows) yield await asRecord(row)
        after += limit
      }
    },
    books: (segment) => database.read('books', segment),
    dropProjections: () => database.write('dropProjections', null),
    async project({ conversationId, segment }) {
      const spilled: Record<string, string> = {}
      for (;;) {
        const command = { conversationId, segment, limit: EVENTS_AT_ONCE, spilled }
        const outcome = await database.write('project', command)
        if (!('missingBlobs' in outcome)) return outcome
        for (const blob of outcome.missingBlobs) spilled[blob] = await readSpilled(blobs, blob)
      }
    },
    projections: () => database.read('projections', null),
    async *contents() {
      for (let after = ''; ; ) {
        const keys = await database.read('namedBlobs', { after, limit: CONTENTS_AT_ONCE })
        for (const key of keys) yield { key, flaw: await blobFlaw(key) }
        const last = keys.at(-1)
        if (last === undefined) break
        after = last
      }
      for (let after = ''; ; ) {
        const blocks = await database.read('blocksAfter', { after, limit: CONTENTS_AT_ONCE })
        for (const { hash, bytes } of blocks) yield { key: hash, flaw: blockFlaw(hash, bytes) }
        const last = blocks.at(-1)
        if (!last) return
        after = last.hash
      }
    },
  }
}

function blockFlaw(hash: string, bytes: Uint8Array): string | null {
  try {
    const found = createHash('sha256').update(gunzipSync(bytes)).digest('hex')
    return found === hash ? null : `Request block ${hash} doesn't match its SHA-256.`
  } catch (error) {
    return `Request block ${hash} can't be read: ${(error as Error).message}`
  }
}
