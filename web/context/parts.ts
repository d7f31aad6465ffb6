import type { ContextPartView, ResponseDetails } from '../../src/protocol/api/context.ts'
import { text } from '../text.ts'

/** Parts of a request summed by origin, in request order. */
export interface PartGroup {
  type: string
  tokens: number
  count: number
}

export function groupParts(parts: readonly ContextPartView[], sent: boolean): PartGroup[] {
  const groups = new Map<string, PartGroup>()
  for (const part of parts) {
    if (part.sent !== sent) continue
    const { type } = part.origin
    const before = groups.get(type) ?? { type, tokens: 0, count: 0 }
    groups.set(type, { type, tokens: before.tokens + part.tokens, count: before.count + 1 })
  }
  return [...groups.values()]
}

export function tokensOf(groups: readonly PartGroup[]): number {
  return groups.reduce((sum, group) => sum + group.tokens, 0)
}

/** Our estimate of the input: what was sent, and what the provider held. */
export function estimateOf({ parts, held }: Pick<ResponseDetails, 'parts' | 'held'>): number {
  return parts.reduce((sum, part) => sum + (part.sent ? part.tokens : 0), held.tokens)
}

/** Shows everything held from earlier requests as one part. */
export function withHeld({
  parts,
  held,
}: Pick<ResponseDetails, 'parts' | 'held'>): readonly ContextPartView[] {
  if (held.parts === 0) return parts
  const part = {
    origin: { type: 'held' },
    tokens: held.tokens,
    sent: false,
    why: text.context.isHeld(held.parts),
  }
  return [part, ...parts]
}

/** Identifies a part within its type: a path with lines, a name, a role or a call id. */
export function nameOfOrigin(origin: ContextPartView['origin']): string {
  const lines = origin.start_line === undefined ? '' : `:${origin.start_line}–${origin.end_line ?? ''}`
  return [
    origin.path === undefined ? null : origin.path + lines,
    origin.name,
    origin.role,
    origin.tool_call_id,
  ]
    .filter((part) => part != null && part !== '')
    .join(' · ')
}
