import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import { applyDelta } from '../core/request-delta.ts'
import type { MemoryMark, Responses } from '../core/responses.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { Database } from './database.ts'
import { type Basis, createRecentRequests } from './recent-requests.ts'
import { keepText, readSpilled, SPILL_BYTES } from './spill.ts'
import type { RequestBlock } from './sql/context/request-blocks.ts'
import type { ReadRequest, SpilledText, StoredRequest } from './sql/context/responses.ts'

const BLOCK_BYTES = 64 * 1024
const BLOCKS_AT_ONCE = 16
const gzipped = promisify(gzip)
/** Smaller requests are stored whole. */
const DELTA_BYTES = 8 * 1024

export function createResponses(deps: { database: Database; blobs: BlobStore; clock: Clock }): Responses {
  const { database, blobs, clock } = deps
  const recent = createRecentRequests()

  async function spilled(text: string): Promise<SpilledText> {
    if (Buffer.byteLength(text) <= SPILL_BYTES) return { text, blob: null }
    return { text: '', blob: await keepText(blobs, text) }
  }

  /**
   * A request that shares most of its bytes with an earlier one of the conversation is stored as the difference. Other long
   * requests are split into blocks of one size, so that requests with the same prefix share blocks.
   */
  async function asStored(bytes: Buffer, text: string, basis: Basis | null): Promise<StoredRequest> {
    if (basis) {
      const { id, prefix, suffix } = basis
      const blocks = await blocksOf(bytes.subarray(prefix, bytes.length - suffix))
      return { text: '', blocks, base: { id, prefix, suffix } }
    }
    if (bytes.length <= BLOCK_BYTES) return { text, blocks: null, base: null }
    return { text: '', blocks: await blocksOf(bytes), base: null }
  }

  async function blocksOf(bytes: Buffer): Promise<RequestBlock[]> {
    const pieces = Array.from({ length: Math.ceil(bytes.length / BLOCK_BYTES) }, (_, index) =>
      bytes.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES),
    )
    const hashes: string[] = []
    for (const piece of pieces) {
      // Long requests must not hold up everything else.
      if (hashes.length % BLOCKS_AT_ONCE === BLOCKS_AT_ONCE - 1) await setImmediate()
      hashes.push(createHash('sha256').update(piece).digest('hex'))
    }
    const known = new Set(await database.read('knownBlocks', [...new Set(hashes)]))
    const blocks: RequestBlock[] = []
    for (const [index, piece] of pieces.entries()) {
      const hash = hashes[index] ?? ''
      blocks.push({ hash, bytes: known.has(hash) ? null : await gzipped(piece) })
    }
    return blocks
  }

  /** Joins the blocks after checking each against its SHA-256. */
  function joined(blocks: readonly Uint8Array[], hashes: readonly string[]): Buffer {
    const pieces = blocks.map((block) => gunzipSync(block))
    for (const [index, piece] of pieces.entries()) {
      const hash = createHash('sha256').update(piece).digest('hex')
      if (hashes[index] !== hash) {
        throw new WaymarkError('storage_failed', `Request block ${hashes[index]} doesn't match its SHA-256.`)
      }
    }
    return Buffer.concat(pieces)
  }

  /** Puts a request together, from the base that is stored whole to the request itself. */
  async function bodyOf(requests: readonly ReadRequest[]): Promise<string> {
    let body: Uint8Array = Buffer.alloc(0)
    for (const { blocks, layout, ...spilt } of requests.toReversed()) {
      if (!blocks || !layout) body = Buffer.from(await whole(spilt))
      else if (layout.base) body = applyDelta(body, layout.base, joined(blocks, layout.blocks))
      else body = joined(blocks, layout.blocks)
    }
    return Buffer.from(body).toString()
  }

  const whole = ({ text, blob }: SpilledText) => (blob === null ? text : readSpilled(blobs, blob))

  return {
    async begin({ id, conversationId, runId, request, details }, fence) {
      const command = { id, conversationId, runId, fence, details, at: timestamp(clock.now()) }
      const bytes = Buffer.from(request)
      let basis = bytes.length < DELTA_BYTES ? null : recent.basisFor(conversationId, bytes)
      for (;;) {
        const kept = await asStored(bytes, request, basis)
        const { isStored } = await database.write('beginResponse', { ...command, request: kept })
        if (isStored) break
        // A known block was collected in the meantime, or the line has left its base: the next attempt stores it whole.
        if (basis) recent.forget(conversationId)
        basis = null
      }
      if (bytes.length >= DELTA_BYTES)
        recent.add(conversationId, { id, bytes, depth: (basis?.depth ?? 0) + 1 })
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
      const { requests, response, ...rest } = found
      return { ...rest, request: await bodyOf(requests), response: response && (await whole(response)) }
    },
  }
}
