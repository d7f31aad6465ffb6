/** The mention being typed, from its @ to the caret. */
export interface Mention {
  start: number
  typed: string
}

export function mentionAt(content: string, caret: number): Mention | null {
  const found = /(?:^|[\s(])@([^\s@]*)$/.exec(content.slice(0, caret))
  return found ? { start: caret - (found[1] ?? '').length - 1, typed: found[1] ?? '' } : null
}

/** Replaces the typed mention with the full path, and returns the new caret position. */
export function withMention(
  content: string,
  { start, typed }: Mention,
  path: string,
): { content: string; caret: number } {
  const rest = content.slice(start + 1 + typed.length)
  const named = `${content.slice(0, start)}@${path}${rest.startsWith(' ') ? '' : ' '}`
  return { content: named + rest, caret: named.length + (rest.startsWith(' ') ? 1 : 0) }
}

/** True if the text mentions exactly this file, not just a path that starts with it. */
export function isNamed(content: string, path: string): boolean {
  return content.split(`@${path}`).some((rest, index) => index > 0 && endsHere(rest))
}

/** Turns the mention of a file into plain text. */
export function withoutMention(content: string, path: string): string {
  return content
    .split(`@${path}`)
    .reduce((before, rest) => `${before}${endsHere(rest) ? path : `@${path}`}${rest}`)
}

function endsHere(rest: string): boolean {
  return !/^(\w|[./-]\w)/.test(rest)
}
