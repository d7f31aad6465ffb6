/** Fits text into rows of a terminal. Rows are broken here and never by the terminal, so their number is known. */

// oxlint-disable-next-line no-control-regex -- matches our own style sequences
const PIECE = /\u001b\[[0-9;]*m|[\s\S]/gu
// oxlint-disable-next-line no-control-regex -- matches our own style sequences
const STYLE = /^\u001b\[/
const RESET = '\u001b[0m'

/**
 * Columns that a character occupies. Where terminals differ, it is the larger number: a row may then end early, but never
 * too late.
 */
export function widthOf(char: string): number {
  const code = char.codePointAt(0) ?? 0
  if (code < 0x300) return 1
  if (/[\p{Mn}\p{Me}\u200b-\u200f\u2060-\u2064\ufeff]/u.test(char)) return 0
  if (code < 0x1100) return 1
  if (code < 0x1160) return 2
  return code >= 0x2e80 || /\p{Emoji}/u.test(char) ? 2 : 1
}

export interface WrappedLine {
  /** Complete rows. */
  rows: string[]
  /** The rest, which fits into a row. */
  rest: string
}

/** Breaks a line at spaces; a word that is too long is broken anywhere. Following rows begin with `indent`. */
export function wrapLine(line: string, width: number, indent = ''): WrappedLine {
  const rows: string[] = []
  let row = ''
  let used = 0
  let style = ''
  /** The end of the last space in the row, with the style there. */
  let space: { end: number; style: string } | null = null
  for (const piece of line.match(PIECE) ?? []) {
    if (STYLE.test(piece)) {
      style = piece === RESET ? '' : piece
      row += piece
      continue
    }
    const size = widthOf(piece)
    if (piece === ' ' && used >= width) {
      // Spaces after a full row are not shown on the next one; the first of them marks where the row ends.
      if (used === width) row += piece
      used = width + 1
      space = { end: row.length, style }
      continue
    }
    if (used + size > width && used > indent.length) {
      const at: { end: number; style: string } = space ?? { end: row.length, style }
      rows.push(row.slice(0, at.end).trimEnd() + (at.style === '' ? '' : RESET))
      row = indent + at.style + row.slice(at.end)
      used = visibleWidth(row)
      space = null
    }
    row += piece
    used += size
    if (piece === ' ' && used > indent.length) space = { end: row.length, style }
  }
  return { rows, rest: row }
}

/** The text, or its start with an ellipsis if it doesn't fit into a row. */
export function cutToWidth(text: string, width: number): string {
  if (visibleWidth(text) <= width) return text
  let row = ''
  let used = 0
  for (const piece of text.match(PIECE) ?? []) {
    used += STYLE.test(piece) ? 0 : widthOf(piece)
    if (used > width - 1) break
    row += piece
  }
  return `${row}…`
}

function visibleWidth(text: string): number {
  let width = 0
  for (const piece of text.match(PIECE) ?? []) if (!STYLE.test(piece)) width += widthOf(piece)
  return width
}

/** Rows of the input area with the place of the caret. */
export interface InputRows {
  rows: string[]
  row: number
  /** The text of the caret's row up to the caret. */
  before: string
}

/** Lays out the text being typed. At most `height` rows around the caret are shown. */
export function inputRows(
  { prompt, text, caret }: { prompt: string; text: string; caret: number },
  width: number,
  height: number,
): InputRows {
  const rows: string[] = []
  let row = prompt
  let used = visibleWidth(prompt)
  let place: { row: number; before: string } | null = null
  const next = () => {
    rows.push(row)
    row = ' '.repeat(2)
    used = 2
  }
  let at = 0
  for (const char of text) {
    const size = char === '\n' ? 0 : widthOf(char)
    if (used + size > width) next()
    if (at === caret) place = { row: rows.length, before: row }
    at += char.length
    if (char === '\n') next()
    else {
      row += char === '\t' ? ' ' : char
      used += size
    }
  }
  const found = place ?? { row: rows.length, before: row }
  rows.push(row)
  const first = Math.max(0, Math.min(found.row - Math.floor(height / 2), rows.length - height))
  return { rows: rows.slice(first, first + height), row: found.row - first, before: found.before }
}
