import { type RequestDelta, requestDelta } from '../core/request-delta.ts'

/** A request that later ones may be stored as a difference to. */
interface RecentRequest {
  id: string
  bytes: Buffer
  /** How many requests must be read to put it together. */
  depth: number
}

export interface Basis extends RequestDelta {
  id: string
  depth: number
}

/** Requests of one conversation may alternate between threads, for example an agent and its helper. */
const MAX_PER_CONVERSATION = 4
const MAX_BYTES = 64 * 1024 * 1024
/** Reading a request puts together at most this many; the next one is stored as a difference to an early one, or whole. */
const MAX_DEPTH = 250
/** A difference pays only if most of the request is known. */
const MIN_SHARED = 0.5

/** The last requests of each conversation, so that a growing history is stored once. Forgotten with the process. */
export interface RecentRequests {
  /** The request that this one shares most with; null when it should be stored whole. */
  basisFor(conversationId: string, bytes: Buffer): Basis | null
  add(conversationId: string, request: RecentRequest): void
  forget(conversationId: string): void
}

/** Drops the oldest request, but keeps the shallowest, which is the base for restarting a long chain. */
function dropOne(known: RecentRequest[]): RecentRequest {
  const shallowest = known.reduce((best, one) => (one.depth < best.depth ? one : best))
  const [dropped] = known.splice(known[0] === shallowest ? 1 : 0, 1)
  return dropped as RecentRequest
}

export function createRecentRequests(): RecentRequests {
  const recent = new Map<string, RecentRequest[]>()
  let total = 0

  function forget(conversationId: string): void {
    for (const { bytes } of recent.get(conversationId) ?? []) total -= bytes.length
    recent.delete(conversationId)
  }

  return {
    basisFor(conversationId, bytes) {
      let best: Basis | null = null
      for (const { id, bytes: base, depth } of recent.get(conversationId) ?? []) {
        if (depth + 1 > MAX_DEPTH) continue
        const delta = requestDelta(base, bytes)
        const shared = delta.prefix + delta.suffix
        if (shared < bytes.length * MIN_SHARED) continue
        if (!best || shared > best.prefix + best.suffix) best = { id, depth, ...delta }
      }
      return best
    },
    add(conversationId, request) {
      const known = recent.get(conversationId) ?? []
      // Map order is the order of use: move it to the end.
      recent.delete(conversationId)
      recent.set(conversationId, known)
      known.push(request)
      total += request.bytes.length
      while (known.length > MAX_PER_CONVERSATION) total -= dropOne(known).bytes.length
      for (const id of recent.keys()) {
        if (total <= MAX_BYTES) break
        forget(id)
      }
    },
    forget,
  }
}
