import type { Root, RootContent } from 'hast'

/** A piece of a line, with the classes that color it. */
export interface Piece {
  text: string
  className: string
}

/** A highlighted text as lines: a string or a comment may span several. */
export function linesOf(tree: Root): Piece[][] {
  const lines: Piece[][] = [[]]
  function add(nodes: readonly RootContent[], className: string): void {
    for (const node of nodes) {
      if (node.type === 'text') addText(node.value, className)
      if (node.type !== 'element') continue
      const own = node.properties.className
      const names = Array.isArray(own) ? own.join(' ') : ''
      add(node.children, className === '' ? names : `${className} ${names}`)
    }
  }
  function addText(text: string, className: string): void {
    for (const [index, part] of text.split('\n').entries()) {
      if (index > 0) lines.push([])
      if (part !== '') lines.at(-1)?.push({ text: part, className })
    }
  }
  add(tree.children, '')
  return lines
}

/** The pieces between two characters of the line. */
export function piecesBetween(pieces: readonly Piece[], from: number, to: number): Piece[] {
  let at = 0
  return pieces.flatMap(({ text, className }) => {
    const start = at
    at += text.length
    const part = text.slice(Math.max(0, from - start), Math.max(0, to - start))
    return part === '' ? [] : [{ text: part, className }]
  })
}
