/** A row of a unified diff with line numbers. File names and modes are shown elsewhere. */
export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'gap'
  before: number | null
  after: number | null
  text: string
}

export function diffLines(diff: string): DiffLine[] {
  const rows: DiffLine[] = []
  let before = 0
  let after = 0
  let isInside = false
  for (const line of diff.split('\n')) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/.exec(line)
    if (hunk) {
      before = Number(hunk[1])
      after = Number(hunk[2])
      // The first hunk needs no gap row, unless its header has context text.
      if (isInside || hunk[3]) rows.push({ kind: 'gap', before: null, after: null, text: hunk[3] ?? '' })
      isInside = true
    } else if (!isInside) {
      continue
    } else if (line.startsWith('+'))
      rows.push({ kind: 'added', before: null, after: after++, text: line.slice(1) })
    else if (line.startsWith('-'))
      rows.push({ kind: 'removed', before: before++, after: null, text: line.slice(1) })
    else if (line.startsWith(' '))
      rows.push({ kind: 'same', before: before++, after: after++, text: line.slice(1) })
    else if (line.startsWith('diff --git ')) isInside = false
  }
  return rows
}

/** The part of a line that differs from the line it replaces. */
export interface ChangedPart {
  from: number
  to: number
}

/** Lines that have little in common are replaced as a whole: marking their rest would say nothing. */
const LEAST_SHARED = 0.4

/** By index, for removed lines that are followed by as many added ones. */
export function changedParts(lines: readonly DiffLine[]): Map<number, ChangedPart> {
  const parts = new Map<number, ChangedPart>()
  for (let start = 0; start < lines.length; start++) {
    if (lines[start]?.kind !== 'removed') continue
    let middle = start
    while (lines[middle]?.kind === 'removed') middle++
    let end = middle
    while (lines[end]?.kind === 'added') end++
    const count = middle - start
    for (let index = 0; end - middle === count && index < count; index++) {
      markPair(parts, lines, start + index, middle + index)
    }
    start = end - 1
  }
  return parts
}

function markPair(
  parts: Map<number, ChangedPart>,
  lines: readonly DiffLine[],
  removed: number,
  added: number,
): void {
  const before = lines[removed]?.text ?? ''
  const after = lines[added]?.text ?? ''
  const most = Math.min(before.length, after.length)
  let same = 0
  while (same < most && before[same] === after[same]) same++
  let tail = 0
  while (tail < most - same && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  // Whole words: a mark that starts inside a word is hard to read.
  while (same > 0 && /\w/.test(before[same - 1] ?? '') && /\w/.test(before[same] ?? after[same] ?? '')) same--
  while (
    tail > 0 &&
    /\w/.test(before.at(-tail) ?? '') &&
    /\w/.test(before.at(-tail - 1) ?? after.at(-tail - 1) ?? '')
  )
    tail--
  if (same + tail < LEAST_SHARED * Math.max(before.length, after.length)) return
  if (same + tail < before.length) parts.set(removed, { from: same, to: before.length - tail })
  if (same + tail < after.length) parts.set(added, { from: same, to: after.length - tail })
}
