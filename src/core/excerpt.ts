import type { SearchTerms } from './search.ts'

/** A piece of a text around the first match of a search. */
export interface Excerpt {
  text: string
  /** The match within the text: its first character, and the one after its last. */
  match: [number, number]
}

const BEFORE = 60
const AFTER = 140

/** The text around the first of these words that it has; otherwise its start. White space is collapsed. */
export function excerptOf(text: string, { words, prefix }: SearchTerms): Excerpt {
  const terms = prefix === null ? words : [prefix, ...words]
  const matches = terms.map((term) => matchIn(text, term))
  const [found, length] = matches.find(([at]) => at >= 0) ?? [0, 0]
  const from = Math.max(0, found - BEFORE)
  const start = from === 0 ? 0 : wordStart(text, from, found)
  const before = collapsed(text.slice(start, found), start > 0)
  const match = text.slice(found, found + length).replaceAll(/\s/g, ' ')
  const end = Math.min(text.length, found + length + AFTER)
  const after = `${text.slice(found + length, end).replaceAll(/\s+/g, ' ')}${end < text.length ? '…' : ''}`
  return { text: before + match + after, match: [before.length, before.length + match.length] }
}

function wordStart(text: string, from: number, before: number): number {
  const space = text.slice(from, before).search(/\s/)
  return space < 0 ? from : from + space + 1
}

function collapsed(text: string, isCut: boolean): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return isCut ? `…${line}` : line.trimStart()
}

/** Where the match begins, and its length. Lower case may be longer than the text itself. */
function matchIn(text: string, search: string): [at: number, length: number] {
  const [lower, wanted] = [text.toLowerCase(), search.toLowerCase()]
  const found = lower.indexOf(wanted)
  if (found < 0 || lower.length === text.length) return [found, search.length]
  let at = 0
  let [start, end] = [-1, text.length]
  for (let index = 0; index < text.length && at < found + wanted.length; index++) {
    if (at <= found) start = index
    at += (text[index] ?? '').toLowerCase().length
    end = index + 1
  }
  return [start, end - start]
}
