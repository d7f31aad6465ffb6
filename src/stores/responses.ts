import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import type { MemoryMark, Responses } from '../core/responses.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'
import { keepText, readSpilled, SPILL_BYTES } from './spill.ts'
import type { SpilledText } from './sql/responses.ts'

export function createResponses(deps: {
  engine: Engine
  blobs: BlobStore
  clock: Clock
  writes: GroupedWrites
}): Responses {
  const { engine, blobs, clock, writes } = deps

  async function spilled(text: string): Promise<SpilledText> {
    if (Buffer.byteLength(text) <= SPILL_BYTES) return { text, blob: null }
    return { text: '', blob: await keepText(blobs, text) }
  }

  const whole = ({ text, blob }: SpilledText) => (blob === null ? text : readSpilled(blobs, blob))

  return {
    async begin({ id, conversationId, runId, request, details }, fence) {
      const command = { id, conversationId, runId, fence, details, at: timestamp(clock.now()) }
      const locks = { locks: conversationId }
      accepted(
        await stored(
          writes.write('beginResponse', { ...command, request: await spilled(request) }, null, locks),
        ),
      )
    },
    async end(id, { response, ...end }) {
      const kept = response === null ? null : await spilled(response)
      await stored(writes.write('endResponse', { id, at: timestamp(clock.now()), end, response: kept }, null))
    },
    async list({ tenant, conversationId, limit, cursor, upTo }) {
      const query = { tenant, conversationId, limit, before: cursor, upTo: upTo ?? null }
      const { items, more } = accepted(await stored(engine.read('listResponses', query), 'read'))
      return { items, next: more ? (items.at(-1)?.id ?? null) : null }
    },
    async memories(tenant, conversationId) {
      const rows = accepted(await stored(engine.read('listMemories', { tenant, conversationId }), 'read'))
      return await Promise.all(
        rows.map(async ({ eventNumber, summaryRef, details, createdAt }) => ({
          eventNumber,
          checkpoint: JSON.parse(details) as MemoryMark['checkpoint'],
          summary: summaryRef === null ? null : await readSpilled(blobs, summaryRef),
          createdAt,
        })),
      )
    },
    async get(tenant, conversationId, id) {
      const query = { tenant, conversationId, id }
      const found = accepted(await stored(engine.read('readResponse', query), 'read'))
      const { request, response, ...rest } = found
      return { ...rest, request: await whole(request), response: response && (await whole(response)) }
    },
  }
}
