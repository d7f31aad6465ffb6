import type { Outcome, Write } from '../engine.ts'
import type { AppendOutcome, AppendRequest } from '../sql/append.ts'

/**
 * Groups of appends cross to the writer's thread flat: one list of strings and numbers. Copying objects would send every
 * property's name with every frame, and that is where half of the time between the threads went.
 */
export type Packed = (string | number | null)[]

/** Null when the group holds anything but appends; it then crosses as it is. */
export function packAppends(group: readonly Write[]): Packed | null {
  const packed: Packed = []
  for (const { name, argument } of group) {
    if (name !== 'append') return null
    const { tenant, conversationId, runId, epoch, after, timestamp, drafts } = argument as AppendRequest
    packed.push(tenant, conversationId, runId, epoch, after, timestamp, drafts.length)
    for (const { kind, text, blob } of drafts) packed.push(kind, text, blob)
  }
  return packed
}

export function unpackAppends(packed: Packed): Write[] {
  const group: Write[] = []
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
    group.push({ name: 'append', argument, conversationId: argument.conversationId })
  }
  return group
}

/** Outcomes that are all good go back as pairs of numbers; null when one is not. */
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
