import { createHash } from 'node:crypto'
import { tokensOf } from './script.ts'

/**
 * Counts how much of a request's prefix an earlier request had, as the providers' caches do: block by block, only whole
 * blocks, and only up to a place that was marked (or anywhere, for servers that need no marks).
 */
export interface PromptCache {
  /** `marked` are the positions after which the prefix may be read and is stored; null for everywhere. */
  count(blocks: readonly unknown[], marked: readonly number[] | null): CountedPrompt
}

export interface CountedPrompt {
  input: number
  /** Tokens of the longest prefix that was stored before. */
  cached: number
  /** Tokens that this request adds to the cache. */
  created: number
}

/** How far before a mark the API looks for a stored prefix. */
const LOOK_BACK = 20
const MOST_STORED = 20_000

export function createPromptCache(): PromptCache {
  const stored = new Set<string>()
  return {
    count(blocks, marked) {
      const prefixes = prefixesOf(blocks)
      const places = marked ?? blocks.map((_, index) => index)
      const isReachable = (at: number) =>
        marked === null || places.some((place) => at <= place && place - at <= LOOK_BACK)
      const found = prefixes.findLastIndex(({ hash }, at) => stored.has(hash) && isReachable(at))
      const cached = prefixes[found]?.tokens ?? 0
      const last = Math.max(-1, ...places)
      const created = Math.max(0, (prefixes[last]?.tokens ?? 0) - cached)
      for (const place of places) stored.add(prefixes[place]?.hash ?? '')
      if (stored.size > MOST_STORED) stored.clear()
      return { input: prefixes.at(-1)?.tokens ?? 0, cached, created }
    },
  }
}

/** The hash and the size of every prefix. */
function prefixesOf(blocks: readonly unknown[]): { hash: string; tokens: number }[] {
  let hash = ''
  let tokens = 0
  return blocks.map((block) => {
    hash = createHash('sha256').update(hash).update(JSON.stringify(block)).digest('base64')
    tokens += tokensOf(block)
    return { hash, tokens }
  })
}

/** The blocks of a Messages request in the API's order (tools, system, messages), and the marked ones. */
export function messageBlocks(body: {
  tools?: unknown[] | undefined
  system?: unknown
  messages?: { role?: string; content?: unknown }[] | undefined
}): { blocks: unknown[]; marked: number[] } {
  const system = Array.isArray(body.system) ? body.system : body.system ? [body.system] : []
  const said = (body.messages ?? []).flatMap(({ role, content }) =>
    (Array.isArray(content) ? content : [content]).map((block: unknown) => ({ role, block })),
  )
  const all = [...(body.tools ?? []), ...system, ...said.map(({ block }) => block)]
  const marked = all.flatMap((block, index) => (isMarked(block) ? index : []))
  const blocks = [...(body.tools ?? []), ...system, ...said].map(withoutMark)
  return { blocks, marked }
}

function isMarked(block: unknown): boolean {
  return typeof block === 'object' && block !== null && 'cache_control' in block
}

function withoutMark(block: unknown): unknown {
  return JSON.parse(
    JSON.stringify(block, (key, value: unknown) => (key === 'cache_control' ? undefined : value)),
  )
}
