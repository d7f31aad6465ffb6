/** The lines of a text, without their ends; an end at the end of the text begins no line. */
export function linesOf(text: string): string[] {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}
