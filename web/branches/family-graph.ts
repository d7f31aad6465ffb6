import type { Family } from '../../src/protocol/api/lines.ts'

export type Member = Family['items'][number]

/** A conversation in the graph: one row each, below its parent, with time from left to right. */
export interface DrawnMember {
  member: Member
  row: number
  /** Start and end of its line, as fractions of the longest line. */
  from: number
  to: number
  /** The parent's row. */
  parentRow: number | null
}

export function drawFamily({ root, items }: Family): DrawnMember[] {
  const longest = Math.max(1, ...items.map((item) => item.head_event_number))
  const children = Map.groupBy(
    items.filter((item) => item.parent !== null),
    (item) => item.parent?.conversation_id ?? '',
  )
  const drawn: DrawnMember[] = []
  function add(member: Member, parentRow: number | null): void {
    const row = drawn.length
    const from = (member.parent?.event_number ?? 0) / longest
    drawn.push({ member, row, from, to: Math.max(member.head_event_number / longest, from), parentRow })
    const forks = (children.get(member.conversation_id) ?? []).toSorted(
      (a, b) => (a.parent?.event_number ?? 0) - (b.parent?.event_number ?? 0),
    )
    for (const child of forks) add(child, row)
  }
  for (const member of items) {
    if (member.conversation_id === root) add(member, null)
  }
  return drawn
}
