/**
 * A text with nothing hidden in it, for people who have to agree to it: characters that can't be seen, or that turn the
 * text around, are written out, and long runs of blanks are counted.
 */

/** Controls, marks of direction, everything that takes no room, blanks of other widths, and halves of characters. */
const INVISIBLE = /(?![\n\t ])[\p{C}\p{Z}\p{DI}\u2800]/gu
const MANY_BLANKS = /[ \t]{20,}/g
const MANY_LINES = /\n(?:[ \t]*\n){5,}/g

export function visibleText(text: string): string {
  return text
    .replace(INVISIBLE, (found) => `⟨U+${hexOf(found)}⟩`)
    .replace(MANY_BLANKS, (found) => ` ⟨${found.length} blanks⟩ `)
    .replace(MANY_LINES, (found) => `\n⟨${found.split('\n').length - 2} empty lines⟩\n`)
}

function hexOf(char: string): string {
  return (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
}

export interface VisibleField {
  name: string
  text: string
}

/** The arguments of a call as people read them, field by field; one without a name where they are no object. */
export function visibleFields(written: string): VisibleField[] {
  let value: unknown
  try {
    value = JSON.parse(written)
  } catch {
    return [{ name: '', text: visibleText(written) }]
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return [{ name: '', text: visibleText(written) }]
  }
  return Object.entries(value).map(([name, one]) => ({
    name: visibleText(name).replaceAll('\n', '⟨U+000A⟩'),
    text: visibleText(typeof one === 'string' ? one : JSON.stringify(one, null, 2)),
  }))
}
