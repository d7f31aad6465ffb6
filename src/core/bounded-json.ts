import { WaymarkError } from '../protocol/errors.ts'

/** Far above any valid body. Validating a larger one could take minutes or overflow the stack. */
export const MAX_DEPTH = 40
const MAX_VALUES = 100_000

const QUOTE = 34
const COMMA = 44
const BACKSLASH = 92

/** Parses JSON after one pass over the text has checked its depth and number of values. */
export function parseBoundedJson(text: string, maxDepth = MAX_DEPTH): unknown {
  assertBounded(text, maxDepth)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new WaymarkError(
      'invalid_json',
      `The body is not valid JSON: ${(cause as Error).message.slice(0, 200)}`,
      {
        cause,
      },
    )
  }
}

function assertBounded(text: string, maxDepth: number): void {
  let depth = 0
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COMMA) values++
    else if (code === 91 || code === 123) {
      depth++
      values++
    } else if (code === 93 || code === 125) depth--
    if (depth > maxDepth)
      throw new WaymarkError('invalid_json', `The body is nested more than ${maxDepth} levels deep.`)
    if (values > MAX_VALUES) {
      throw new WaymarkError('invalid_json', `The body has more than ${MAX_VALUES} values.`)
    }
  }
}

function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return text.length
}
