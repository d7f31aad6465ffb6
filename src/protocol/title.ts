const MOST = 60

/** The title of a conversation without a title of its own: the start of its first message, without Markdown and demo-model directives. */
export function titleFrom(content: string): string {
  const lines = content.split('\n').filter((line) => line.trim() !== '')
  const told = lines.find((line) => !line.startsWith('!')) ?? lines[0] ?? ''
  return shortened(told.replaceAll(/[*`]+|^[#>\s]+/g, ''), MOST) || shortened(content, MOST)
}

/** Collapses whitespace and truncates to `most` characters. */
export function shortened(content: string, most: number): string {
  const line = content.replaceAll(/\s+/g, ' ').trim()
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}
