/** A file that is being named: from its @ to the caret. */
export interface Mention {
  start: number
  typed: string
}

export function mentionAt(content: string, caret: number): Mention | null {
  const found = /(?:^|[\s(])@([^\s@]*)$/.exec(content.slice(0, caret))
  return found ? { start: caret - (found[1] ?? '').length - 1, typed: found[1] ?? '' } : null
}

/** The text with the whole path in the place of what was typed, and where the caret goes. */
export function withMention(
  content: string,
  { start, typed }: Mention,
  path: string,
): { content: string; caret: number } {
  const rest = content.slice(start + 1 + typed.length)
  const named = `${content.slice(0, start)}@${path}${rest.startsWith(' ') ? '' : ' '}`
  return { content: named + rest, caret: named.length + (rest.startsWith(' ') ? 1 : 0) }
}
