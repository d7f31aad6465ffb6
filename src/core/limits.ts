import type { Notice } from '../protocol/frames.ts'

/** How much of a value goes into one frame; the whole is kept elsewhere. */
export const MAX_ARGUMENTS_TEXT = 8000
export const MAX_ARGUMENT_STRING = 4000
export const MAX_OUTPUT_STRING = 8000

/** The first so many characters, never half of one. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const last = text.charCodeAt(most - 1)
  const splits = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, splits ? most - 1 : most)
}

/** A copy in which no string is longer than `most`; each one that was leaves a notice with its path. */
export function limitStrings(value: unknown, most: number, path: string, notices: Notice[]): unknown {
  if (typeof value === 'string') {
    if (value.length <= most) return value
    notices.push(truncatedNotice(path, value.length, most))
    return cutText(value, most)
  }
  if (Array.isArray(value)) {
    return value.map((one, index) => limitStrings(one, most, `${path}.${index}`, notices))
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, limitStrings(one, most, `${path}.${key}`, notices)]),
  )
}

export function truncatedNotice(path: string, length: number, most: number): Notice {
  return {
    type: 'truncated',
    path,
    message: `${length.toLocaleString('en')} characters, of which the first ${most.toLocaleString('en')} are here.`,
  }
}
