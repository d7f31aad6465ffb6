import type { Outcome } from '../engine.ts'
import type { AppendOutcome, AppendRequest } from '../sql/lines/append.ts'
import type { WriteCall } from '../sql/operations.ts'

/**
 * Groups of appends are sent to the writer thread as one flat list of strings and numbers. Cloning objects would send every
 * property name with every frame, which took half of the transfer time.
 */
export type Packed = (string | number | null)[]

/** Null when the group contains other writes; it is then sent unpacked. */
export function packAppends(group: readonly WriteCall[]): Packed | null {
  const packed: Packed = []
  for (const { name, argument } of group) {
    if (name !== 'append') return null
    const { tenant, conversationId, runId, epoch, after, timestamp, drafts } = argument as AppendRequest
    packed.push(tenant, conversationId, runId, epoch, after, timestamp, drafts.length)
    for (const { kind, text, blob } of drafts) packed.push(kind, text, blob)
  }
  return packed
}

export function unpackAppends(packed: Packed): WriteCall[] {
  const group: WriteCall[] = []
  for (let at = 0; at < packed.length; ) {
    const [tenant, conversationId, runId, epoch, after, timestamp, count] = packed.slice(at, at + 7)
    at += 7
    const drafts: AppendRequest['drafts'] = []
    for (let index = 0; index < Number(count); index++, at += 3) {
      drafts.push({
        kind: packed[at] as string,
        text: packed[at + 1] as string,
        blob: packed[at + 2] as string | null,
      })
    }
    const argument = { tenant, conversationId, runId, epoch, after, timestamp, drafts } as AppendRequest
    group.push({ name: 'append', argument })
  }
  return group
}

/** Packs outcomes as pairs of numbers; null unless all succeeded. */
export function packOutcomes(outcomes: readonly Outcome[]): Packed | null {
  const packed: Packed = []
  for (const outcome of outcomes) {
    if ('error' in outcome) return null
    const result = outcome.result as AppendOutcome
    if (!result.ok) return null
    packed.push(result.firstSeq, result.lastSeq)
  }
  return packed
}

export function unpackOutcomes(packed: Packed): Outcome[] {
  const outcomes: Outcome[] = []
  for (let at = 0; at < packed.length; at += 2) {
    outcomes.push({ result: { ok: true, firstSeq: packed[at], lastSeq: packed[at + 1] } })
  }
  return outcomes
}
