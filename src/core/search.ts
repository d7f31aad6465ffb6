import type { FrameKind } from '../protocol/frame-kinds.ts'
import { asciiWords, WORD_CHARACTERS } from './ascii-words.ts'

/**
 * What a search finds. Both engines index the words that this file makes of a text, not words of their own, so they find the
 * same events as a scan of the ledger.
 */
export type SearchedKind = 'message' | 'answer' | 'call' | 'output' | 'edit'

/** An event's text, as the index and the excerpts have it. */
export interface SearchedText {
  kind: SearchedKind
  text: string
  tool: string | null
  path: string | null
}

/** The words of a search. All must be there; the last may be the start of a word. */
export interface SearchTerms {
  words: string[]
  prefix: string | null
}

const SEARCHED_CHARACTERS = 65_536
const MOST_TERMS = 16

/** Scripts without spaces between words: each character is a word. */
const WORD =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}]|[\p{L}\p{N}\p{M}_]+?(?=[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}]|[^\p{L}\p{N}\p{M}_]|$)/gu
/** Parts of identifiers: `basketTotal` and `basket_total` are found by `total` too. */
const PART = /\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{Lo}\p{M}]+|\p{N}+/gu

const searchedTexts: Partial<Record<FrameKind, (fields: Record<string, unknown>) => SearchedText | null>> = {
  'message.user': ({ content }) => ({ kind: 'message', text: String(content), tool: null, path: null }),
  final: ({ final }) => {
    const text = (final as { response_text?: unknown }).response_text
    return typeof text === 'string' ? { kind: 'answer', text, tool: null, path: null } : null
  },
  'tool.arguments.done': ({ tool_name, arguments_text, arguments_json }) => {
    const { path } = (
      typeof arguments_json === 'object' && arguments_json !== null ? arguments_json : {}
    ) as {
      path?: unknown
    }
    return {
      kind: 'call',
      text: `${String(tool_name)} ${String(arguments_text)}`,
      tool: String(tool_name),
      path: typeof path === 'string' ? path : null,
    }
  },
  'tool.output': ({ output, partial }) => {
    if (partial === true) return null
    const text = typeof output === 'string' ? output : JSON.stringify(output ?? '')
    return { kind: 'output', text, tool: null, path: null }
  },
  'file.edit': ({ path, diff }) => ({
    kind: 'edit',
    text: `${String(path)}\n${typeof diff === 'string' ? changedLines(diff) : ''}`,
    tool: null,
    path: String(path),
  }),
}

/** The lines that a diff adds and removes, without its headers and the unchanged lines around them. */
function changedLines(diff: string): string {
  const start = Math.max(0, diff.indexOf('@@'))
  return diff
    .slice(start, start + 2 * SEARCHED_CHARACTERS)
    .split('\n')
    .flatMap((line) => (line.startsWith('+') || line.startsWith('-') ? line.slice(1) : []))
    .join('\n')
}

/** The searched text of a frame, or null. The index has its start. */
export function searchedTextOf(frame: Record<string, unknown>): SearchedText | null {
  const found = searchedTexts[frame.kind as FrameKind]?.(frame) ?? null
  return found && { ...found, text: found.text.slice(0, SEARCHED_CHARACTERS) }
}

export function isSearched(kind: string): boolean {
  return Object.hasOwn(searchedTexts, kind)
}

/** The text that the engines index: words in ASCII, separated by spaces. A word may occur twice. */
export function indexedWords(text: string): string {
  const { lowercase, forms } = wordsIn(text)
  return [...lowercase, ...Array.from(forms, encoded)].join(' ')
}

/** The words of a text and the parts of its identifiers. Lowercase words are their own form, and have no parts. */
function wordsIn(text: string): { lowercase: string[]; forms: Set<string> } {
  const { lowercase, others } = asciiWords(text) ?? { lowercase: [], others: new Set(text.match(WORD)) }
  const forms = new Set<string>()
  for (const word of others) {
    forms.add(folded(word))
    const parts = word.match(PART) ?? []
    if (parts.length > 1) for (const part of parts) forms.add(folded(part))
  }
  return { lowercase, forms }
}

/** Null if the search has no word. A search that ends in a space has no prefix. */
export function termsOf(search: string): SearchTerms | null {
  const words = [...search.matchAll(WORD)].map(([word]) => folded(word)).slice(0, MOST_TERMS)
  if (words.length === 0) return null
  const isComplete = /[^\p{L}\p{N}\p{M}_]$/u.test(search)
  return isComplete ? { words, prefix: null } : { words: words.slice(0, -1), prefix: words.at(-1) ?? null }
}

/** True if the text has all words of the search. */
export function isFound(text: string, { words, prefix }: SearchTerms): boolean {
  const { lowercase, forms } = wordsIn(text)
  const all = new Set([...lowercase, ...forms])
  if (!words.every((word) => all.has(word))) return false
  return prefix === null || [...all].some((word) => word.startsWith(prefix))
}

/** The encoded forms that a word of the index may begin with, if the word begins with this prefix. */
export function encodedPrefixes(prefix: string): string[] {
  return isPlain(prefix) ? [prefix, `${MARK}${hex(prefix)}`] : [encoded(prefix)]
}

/** A mark that no plain word contains. */
const MARK = '-'

/** The form of a word in the index. Engines fold and split other letters in ways of their own. */
export function encoded(word: string): string {
  return isPlain(word) ? word : MARK + hex(word)
}

function isPlain(word: string): boolean {
  return /^[a-z0-9_]+$/.test(word)
}

function hex(word: string): string {
  let text = ''
  for (let at = 0; at < word.length; at++) text += word.charCodeAt(at).toString(16).padStart(4, '0')
  return text
}

function folded(word: string): string {
  if (isPlain(word)) return word.slice(0, WORD_CHARACTERS)
  return word.normalize('NFKC').toLowerCase().replaceAll('ς', 'σ').slice(0, WORD_CHARACTERS)
}
