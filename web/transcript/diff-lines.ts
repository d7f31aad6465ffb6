/** A unified diff as rows with line numbers. Names and modes are told elsewhere. */
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
      // What comes first needs no mark that something was left out before it, unless it says what.
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
