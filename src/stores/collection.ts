import { randomBytes } from 'node:crypto'
import { type Clock, timestamp } from '../core/clock.ts'
import type { CollectionStore } from '../core/collection.ts'
import type { Database } from './database.ts'
import { CHECKPOINTS_REMOVED } from './sql/upkeep/collect.ts'

export function createCollectionStore({
  database,
  clock,
}: {
  database: Database
  clock: Clock
}): CollectionStore {
  return {
    async expire(before, tenant) {
      await database.write('expire', { before: timestamp(before), tenant })
    },
    unreachable: (before, tenant, limit) =>
      database.read('unreachable', { before: timestamp(before), tenant, limit }),
    collect: (part) => database.write('collectSegment', part),
    sweep: (before) => database.write('sweep', { before: timestamp(before) }),
    unreferenced: (keys) => database.read('unreferencedBlobs', keys),
    checkpointsRemoved: () => database.read('readCounter', CHECKPOINTS_REMOVED),
    async note({ tenant, by, details }) {
      const entry = {
        tenant,
        by,
        at: clock.now(),
        action: 'collected' as const,
        conversationId: null,
        details,
      }
      await database.write('audit', entry)
    },
    audit: (query) => database.read('readAudit', query),
  }
}

/** Returns the id that distinguishes this database from others used with the same data folder. */
export async function readOrMakeStoreId(database: Database): Promise<string> {
  return String(await database.write('makeStoreId', randomBytes(6).readUIntBE(0, 6)))
}
