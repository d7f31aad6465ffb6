import type { BlobStore } from '../core/blobs.ts'
import type { EventRecord, Upkeep } from '../core/upkeep.ts'
import type { Engine } from './engine.ts'
import { readSpilled, unspill } from './spill.ts'
import type { Schema } from './sql/schema.ts'
import { writeOne } from './write-one.ts'

const SEGMENTS_AT_ONCE = 200
const EVENTS_AT_ONCE = 200

export function createUpkeep({ engine, blobs }: { engine: Engine; blobs: BlobStore }): Upkeep {
  async function asRecord(row: Schema['events']): Promise<EventRecord> {
    const frame =
      row.blob === null
        ? row.frame
        : await unspill(blobs, row.frame, row.blob).catch((error: unknown) => error as Error)
    return { seq: row.seq, bytesBefore: row.bytes_before, digest: row.digest, frame }
  }

  return {
    async *segments({ onlyUnprojected = false } = {}) {
      for (let after = 0; ; ) {
        const rows = await engine.read('segmentsAfter', { after, limit: SEGMENTS_AT_ONCE, onlyUnprojected })
        yield* rows
        const last = rows.at(-1)
        if (!last) return
        after = last.segment
      }
    },
    async *events(segment, after, to) {
      while (after < to) {
        const limit = Math.min(EVENTS_AT_ONCE, to - after)
        const rows = await engine.read('eventsAfter', { segment, after, limit })
        for (const row of rows) yield await asRecord(row)
        after += limit
      }
    },
    books: (segment) => engine.read('books', segment),
    dropProjections: () => writeOne(engine, 'dropProjections', null),
    async project({ conversationId, segment }) {
      const spilled: Record<string, string> = {}
      for (;;) {
        const command = { conversationId, segment, limit: EVENTS_AT_ONCE, spilled }
        const outcome = await writeOne(engine, 'project', command)
        if (!('missingBlobs' in outcome)) return outcome
        for (const blob of outcome.missingBlobs) spilled[blob] = await readSpilled(blobs, blob)
      }
    },
    projections: () => engine.read('projections', null),
  }
}
