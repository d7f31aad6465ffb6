import { randomBytes } from 'node:crypto'
import { type Clock, timestamp } from '../core/clock.ts'
import type { CollectionStore } from '../core/collection.ts'
import { stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { CHECKPOINTS_REMOVED } from './sql/collect.ts'
import { writeOne } from './write-one.ts'

export function createCollectionStore({ engine, clock }: { engine: Engine; clock: Clock }): CollectionStore {
  return {
    async expire(before, tenant) {
      await stored(writeOne(engine, 'expire', { before: timestamp(before), tenant }))
    },
    unreachable: (before, tenant, limit) =>
      stored(engine.read('unreachable', { before: timestamp(before), tenant, limit }), 'read'),
    collect: (part) => stored(writeOne(engine, 'collectSegment', part)),
    sweep: (before) => stored(writeOne(engine, 'sweep', { before: timestamp(before) })),
    unreferenced: (keys) => stored(engine.read('unreferencedBlobs', keys), 'read'),
    checkpointsRemoved: () => stored(engine.read('readCounter', CHECKPOINTS_REMOVED), 'read'),
    async note({ tenant, by, details }) {
      const entry = {
        tenant,
        by,
        at: clock.now(),
        action: 'collected' as const,
        conversationId: null,
        details,
      }
      await stored(writeOne(engine, 'audit', entry))
    },
    audit: (query) => stored(engine.read('readAudit', query), 'read'),
  }
}

/** Names the database among all that a data folder may be used with. */
export async function readOrMakeStoreId(engine: Engine): Promise<string> {
  return String(await writeOne(engine, 'makeStoreId', randomBytes(6).readUIntBE(0, 6)))
}
