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

/** Whether a text names this file: whole, and not one whose name only begins like it. */
export function isNamed(content: string, path: string): boolean {
  return content.split(`@${path}`).some((rest, index) => index > 0 && endsHere(rest))
}

/** The text with a file named as a word, which does not go along. */
export function withoutMention(content: string, path: string): string {
  return content
    .split(`@${path}`)
    .reduce((before, rest) => `${before}${endsHere(rest) ? path : `@${path}`}${rest}`)
}

function endsHere(rest: string): boolean {
  return !/^(\w|[./-]\w)/.test(rest)
}
