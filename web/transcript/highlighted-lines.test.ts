import { describe, expect, it } from 'vitest'
import { linesOf, piecesBetween } from './highlighted-lines.ts'
import { highlight } from './highlighter.ts'

const CODE = 'const a = `one\ntwo` // end\n/* three\n\nfour */ return'

describe('highlighted lines', () => {
  const tree = highlight(CODE, 'typescript')
  const lines = tree ? linesOf(tree) : []

  it('have the text of the code, with the colors of what spans several lines', () => {
    expect(lines.map((line) => line.map(({ text }) => text).join(''))).toEqual(CODE.split('\n'))
    expect(lines[1]?.[0]).toEqual({ text: 'two`', className: 'hljs-string' })
    expect(lines[4]?.[0]).toEqual({ text: 'four */', className: 'hljs-comment' })
  })

  it('are cut at any character', () => {
    const [first = []] = lines
    const length = CODE.indexOf('\n')
    for (let from = 0; from <= length; from++) {
      for (let to = from; to <= length; to++) {
        const text = piecesBetween(first, from, to).map((piece) => piece.text)
        expect(text.join('')).toBe(CODE.slice(from, to))
      }
    }
  })
})
