import type { Notice } from '../protocol/frames.ts'

/** Maximum size of a value in one frame; the full value is stored elsewhere. */
export const MAX_ARGUMENTS_TEXT = 8000
export const MAX_ARGUMENT_STRING = 4000
export const MAX_OUTPUT_STRING = 8000

/** The first `most` characters, without splitting a surrogate pair. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const last = text.charCodeAt(most - 1)
  const splits = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, splits ? most - 1 : most)
}

/** The beginning and the end, with a note about what was left out between: the end often has the result. */
export function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text
  const note = `\n[… ${(text.length - most).toLocaleString('en')} or more characters left out …]\n`
  const tail = Math.floor(most / 4)
  const head = cutText(text, most - tail - note.length)
  const rest = text.slice(-tail)
  const splits = rest.charCodeAt(0) >= 0xdc00 && rest.charCodeAt(0) <= 0xdfff
  return head + note + (splits ? rest.slice(1) : rest)
}

/** A copy in which no string is longer than `most`; each shortened string adds a notice with its path. */
export function limitStrings(
  value: unknown,
  most: number,
  path: string,
  notices: Notice[],
  cut: (text: string, most: number) => string = cutText,
): unknown {
  if (typeof value === 'string') {
    if (value.length <= most) return value
    notices.push(truncatedNotice(path, value.length, most))
    return cut(value, most)
  }
  if (Array.isArray(value)) {
    return value.map((one, index) => limitStrings(one, most, `${path}.${index}`, notices, cut))
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, limitStrings(one, most, `${path}.${key}`, notices, cut)]),
  )
}

export function truncatedNotice(path: string, length: number, most: number): Notice {
  return {
    type: 'truncated',
    path,
    message: `${length.toLocaleString('en')} characters; ${most.toLocaleString('en')} shown.`,
  }
}
