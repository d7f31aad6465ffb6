import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMarkdownStyler } from './markdown.ts'

// oxlint-disable-next-line no-control-regex -- our own style sequences
const STYLES = /\u001b\[[0-9;]*m/g

function styledIn(parts: readonly string[]): string {
  const styler = createMarkdownStyler()
  return parts.map((part) => styler.write(part)).join('') + styler.end()
}

describe('Markdown in a terminal', () => {
  const { isTTY } = process.stdout
  beforeAll(() => {
    process.stdout.isTTY = true
  })
  afterAll(() => {
    process.stdout.isTTY = isTTY
  })

  it('styles emphasis, code, headings, lists, quotes and fences', () => {
    expect(styledIn(['# Title\nsome **bold** and `code`'])).toBe(
      '\u001b[1mTitle\u001b[0m\nsome \u001b[1mbold\u001b[0m and \u001b[36mcode\u001b[0m',
    )
    expect(styledIn(['- one\n  * two\n> said']).replaceAll(STYLES, '')).toBe('• one\n  • two\n│ said')
    expect(styledIn(['```ts\na **b** `c`\n```\nend']).replaceAll(STYLES, '')).toBe(
      '  ts\n  │ a **b** `c`\nend',
    )
  })

  it('leaves other stars as they are', () => {
    for (const text of ['2 * 3 * 4', 'a**2 + b**2', '*.ts', 'x *']) expect(styledIn([text])).toBe(text)
  })

  it('gives the same text however it is cut', () => {
    const unit = fc.constantFrom('a', 'b', ' ', '\n', '*', '**', '`', '```', '#', '- ', '> ', '\n```\n')
    fc.assert(
      fc.property(
        fc.string({ unit, maxLength: 40 }),
        fc.array(fc.nat(40), { maxLength: 6 }),
        (text, cuts) => {
          const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length]
          const parts = at.slice(1).map((end, index) => text.slice(at[index], end))
          const plain = (out: string) => out.replaceAll(STYLES, '')
          expect(plain(styledIn(parts))).toBe(plain(styledIn([text])))
        },
      ),
      { numRuns: 500 },
    )
  })
})
