import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import type { MemoryMark, Responses } from '../core/responses.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'
import { keepText, readSpilled, SPILL_BYTES } from './spill.ts'
import type { SpilledText, StoredRequest } from './sql/responses.ts'

const BLOCK_BYTES = 64 * 1024

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

  /** A long request in blocks of one size, so that requests with the same beginning share them. */
  async function asStored(text: string): Promise<StoredRequest> {
    const bytes = Buffer.from(text)
    if (bytes.length <= BLOCK_BYTES) return { text, blocks: null }
    const pieces = Array.from({ length: Math.ceil(bytes.length / BLOCK_BYTES) }, (_, index) =>
      bytes.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES),
    )
    const hashes = pieces.map((piece) => createHash('sha256').update(piece).digest('hex'))
    const known = new Set(await stored(engine.read('knownBlocks', [...new Set(hashes)]), 'read'))
    const blocks = pieces.map((piece, index) => {
      const hash = hashes[index] ?? ''
      return { hash, bytes: known.has(hash) ? null : gzipSync(piece) }
    })
    return { text: '', blocks }
  }

  /** What the blocks hold must be what was stored. */
  function joined(blocks: readonly Uint8Array[], hashes: readonly string[] | null): string {
    const pieces = blocks.map((block) => gunzipSync(block))
    for (const [index, piece] of pieces.entries()) {
      const hash = createHash('sha256').update(piece).digest('hex')
      if (hashes && hashes[index] !== hash) {
        throw new WaymarkError(
          'storage_failed',
          `The block ${hashes[index]} of a request is not what was stored.`,
        )
      }
    }
    return Buffer.concat(pieces).toString()
  }

  const whole = ({ text, blob }: SpilledText) => (blob === null ? text : readSpilled(blobs, blob))

  return {
    async begin({ id, conversationId, runId, request, details }, fence) {
      const command = { id, conversationId, runId, fence, details, at: timestamp(clock.now()) }
      const locks = { locks: conversationId }
      for (;;) {
        const kept = await asStored(request)
        const { isStored } = accepted(
          await stored(writes.write('beginResponse', { ...command, request: kept }, null, locks)),
        )
        // A block that was there has been collected since: the next look finds it missing.
        if (isStored) return
      }
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
      const body = request.blocks ? joined(request.blocks, request.hashes) : await whole(request)
      return { ...rest, request: body, response: response && (await whole(response)) }
    },
  }
}
