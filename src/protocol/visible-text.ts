/**
 * A text with nothing hidden in it, for people who have to agree to it: characters that can't be seen, or that turn the
 * text around, are written out, and long runs of blanks are counted.
 */

// oxlint-disable-next-line no-control-regex -- these are what is looked for
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc]|\ud834[\udd73-\udd7a]|\udb40[\udc00-\uddef]/g
const LONE_SURROGATE = /\p{Surrogate}/gu
const MANY_BLANKS = /[ \t]{20,}/g
const MANY_LINES = /(?:[ \t]*\n){6,}/g

export function visibleText(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (found) => `⟨${codesOf(found)}⟩`)
    .replace(LONE_SURROGATE, (found) => `⟨${codesOf(found)}⟩`)
    .replace(MANY_LINES, (found) => `\n⟨${found.split('\n').length - 2} empty lines⟩\n`)
    .replace(MANY_BLANKS, (found) => ` ⟨${found.length} blanks⟩ `)
}

function codesOf(text: string): string {
  return [...text]
    .map((one) => `U+${(one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`)
    .join(' ')
}

/** The arguments of a call as people read them: a command as it is, several fields each under its name. */
export function visibleArguments(written: string): string {
  let value: unknown
  try {
    value = JSON.parse(written)
  } catch {
    return visibleText(written)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return visibleText(written)
  const shown = Object.entries(value).map(([name, one]) => {
    const text = visibleText(typeof one === 'string' ? one : JSON.stringify(one, null, 2))
    return text.includes('\n') ? `${visibleText(name)}:\n${text}` : `${visibleText(name)}: ${text}`
  })
  return shown.join('\n')
}
