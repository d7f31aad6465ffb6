import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import type { MemoryMark, Responses } from '../core/responses.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { Database } from './database.ts'
import { keepText, readSpilled, SPILL_BYTES } from './spill.ts'
import type { SpilledText, StoredRequest } from './sql/context/responses.ts'

const BLOCK_BYTES = 64 * 1024

export function createResponses(deps: { database: Database; blobs: BlobStore; clock: Clock }): Responses {
  const { database, blobs, clock } = deps

  async function spilled(text: string): Promise<SpilledText> {
    if (Buffer.byteLength(text) <= SPILL_BYTES) return { text, blob: null }
    return { text: '', blob: await keepText(blobs, text) }
  }

  /** Splits a long request into blocks of one size, so that requests with the same prefix share blocks. */
  async function asStored(text: string): Promise<StoredRequest> {
    const bytes = Buffer.from(text)
    if (bytes.length <= BLOCK_BYTES) return { text, blocks: null }
    const pieces = Array.from({ length: Math.ceil(bytes.length / BLOCK_BYTES) }, (_, index) =>
      bytes.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES),
    )
    const hashes = pieces.map((piece) => createHash('sha256').update(piece).digest('hex'))
    const known = new Set(await database.read('knownBlocks', [...new Set(hashes)]))
    const blocks = pieces.map((piece, index) => {
      const hash = hashes[index] ?? ''
      return { hash, bytes: known.has(hash) ? null : gzipSync(piece) }
    })
    return { text: '', blocks }
  }

  /** Joins the blocks after checking each against its SHA-256. */
  function joined(blocks: readonly Uint8Array[], hashes: readonly string[] | null): string {
    const pieces = blocks.map((block) => gunzipSync(block))
    for (const [index, piece] of pieces.entries()) {
      const hash = createHash('sha256').update(piece).digest('hex')
      if (hashes && hashes[index] !== hash) {
        throw new WaymarkError('storage_failed', `Request block ${hashes[index]} doesn't match its SHA-256.`)
      }
    }
    return Buffer.concat(pieces).toString()
  }

  const whole = ({ text, blob }: SpilledText) => (blob === null ? text : readSpilled(blobs, blob))

  return {
    async begin({ id, conversationId, runId, request, details }, fence) {
      const command = { id, conversationId, runId, fence, details, at: timestamp(clock.now()) }
      for (;;) {
        const kept = await asStored(request)
        const { isStored } = await database.write('beginResponse', { ...command, request: kept })
        // A known block was collected in the meantime; the next attempt sends its bytes.
        if (isStored) return
      }
    },
    async end(id, { response, ...end }) {
      const kept = response === null ? null : await spilled(response)
      await database.write('endResponse', { id, at: timestamp(clock.now()), end, response: kept })
    },
    usage: (tenant, conversationId) => database.read('lineUsage', { tenant, conversationId }),
    async list({ tenant, conversationId, limit, cursor, upTo }) {
      const query = { tenant, conversationId, limit, before: cursor, upTo: upTo ?? null }
      const { items, more } = await database.read('listResponses', query)
      return { items, next: more ? (items.at(-1)?.id ?? null) : null }
    },
    async memories(tenant, conversationId) {
      const rows = await database.read('listMemories', { tenant, conversationId })
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
      const found = await database.read('readResponse', query)
      const { request, response, ...rest } = found
      const body = request.blocks ? joined(request.blocks, request.hashes) : await whole(request)
      return { ...rest, request: body, response: response && (await whole(response)) }
    },
  }
}
