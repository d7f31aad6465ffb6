/**
 * Text with nothing hidden, for people who must approve it: characters that are invisible or change the text direction
 * are written out, and long runs of blanks are counted.
 */

/** Controls, direction marks, zero-width characters, spaces of other widths, and lone surrogates. */
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

/** The arguments of a call as readable fields; a single field without a name if they are not an object. */
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
