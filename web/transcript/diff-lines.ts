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
