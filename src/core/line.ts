import type { ConversationId, SegmentId } from '../protocol/ids.ts'

/**
 * A line is what a conversation shows: its segments from the root to the head, each with the range of event numbers it
 * contributes. Numbers count along the line, so a child's first event is its parent's cut + 1 and nothing is copied:
 *
 *   root   1 2 3 4 5 6 7
 *   child        └─ 5 6        parent root, cut at 4: the line reads 1 2 3 4 (root) 5 6 (child)
 */
export interface LinePart {
  /** The segment's key in the store. */
  segment: number
  segmentId: SegmentId
  conversationId: ConversationId
  from: number
  /** The last event this part contributes; for the last part, the head. */
  to: number
}

export type Line = readonly LinePart[]

export function headOf(line: Line): number {
  return line.at(-1)?.to ?? 0
}

/** The part that holds event `seq`, or undefined when the line does not reach that far. */
export function partAt(line: Line, seq: number): LinePart | undefined {
  return line.find((part) => part.from <= seq && seq <= part.to)
}

export function partsBetween(line: Line, from: number, to: number): LinePart[] {
  return line
    .filter((part) => part.from <= to && part.to >= from && part.from <= part.to)
    .map((part) => ({ ...part, from: Math.max(part.from, from), to: Math.min(part.to, to) }))
}

export interface ReadingPlace {
  /** Continue reading after this event of the line. */
  after: number
  /** Set when the reader has seen events that are not on the line: it must discard all events after this one (L7). */
  cutAfter: number | null
}

/**
 * Where a reader continues whose cursor is at the end of `read`, the line it has seen. Null when the lines share no
 * segment, so the cursor belongs to another family.
 */
export function placeOnLine(line: Line, read: Line): ReadingPlace | null {
  let after: number | null = null
  for (const [index, seen] of read.entries()) {
    const here = line[index]
    if (!here || here.segment !== seen.segment) break
    after = Math.min(here.to, seen.to)
    if (here.to !== seen.to) break
  }
  if (after === null) return null
  return { after, cutAfter: after < headOf(read) ? after : null }
}
