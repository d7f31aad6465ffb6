import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rounds } from '../../../test/support/soak.ts'
import { createEmulator } from '../../../test/support/terminal.ts'
import { inputRows, wrapLine } from './rows.ts'
import { Screen } from './screen.ts'

// oxlint-disable-next-line no-control-regex -- our own style sequences
const STYLES = /\u001b\[[0-9;]*m/g

describe('the screen of a chat', () => {
  it('shows the output and then the input with its caret, however the output arrives', async () => {
    const piece = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', 'b', ' ', ' ', '\n', 'é', '世', '🙂'), maxLength: 60 }),
      fc
        .string({ unit: fc.constantFrom('x', ' ', '\n'), maxLength: 30 })
        .map((text) => `\u001b[1m${text}\u001b[0m`),
    )
    const typed = fc.string({ unit: fc.constantFrom('t', ' ', '\n', '世'), maxLength: 50 })
    const step = fc.oneof(fc.record({ write: piece }), fc.record({ type: typed, at: fc.nat(50) }))
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 25 }),
        fc.integer({ min: 21, max: 50 }),
        fc.integer({ min: 8, max: 20 }),
        async (steps, columns, height) => {
          const emulator = createEmulator(columns, height)
          const pending: Promise<void>[] = []
          const screen = new Screen({
            columns,
            rows: height,
            write: (text) => pending.push(emulator.write(text)),
          })
          let output = ''
          let input = inputRows({ prompt: '> ', text: '', caret: 0 }, screen.width, 4)
          screen.show({ ...input, below: [] })
          for (const one of steps) {
            if ('write' in one) {
              output += one.write
              screen.write(one.write)
            } else {
              const chars = Array.from(one.type)
              const caret = chars.slice(0, one.at % (chars.length + 1)).join('').length
              input = inputRows({ prompt: '> ', text: one.type, caret }, screen.width, 4)
              screen.show({ ...input, below: ['below'] })
            }
          }
          screen.show({ ...input, below: ['below'] })
          await Promise.all(pending)
          const { rows: shown } = { rows: emulator.rows().map((row) => row.trimEnd()) }
          const last = shown.lastIndexOf('below')
          const start = last - input.rows.length
          expect(shown.slice(start, last)).toEqual(input.rows.map((row) => row.trimEnd()))
          expect(emulator.caret().row).toBe(start + input.row)
          // All words of the output are above, in their order.
          const words = (text: string) => text.replaceAll(STYLES, '').replaceAll(/\s+/g, '')
          expect(shown.slice(0, start).join('').replaceAll(/\s+/g, '')).toBe(words(output))
          expect(shown.slice(last + 1).every((row) => row === '')).toBe(true)
        },
      ),
      { numRuns: rounds(100, 3000) },
    )
  })

  it('breaks lines at spaces, keeps their indentation, and never leaves a style open', () => {
    expect(wrapLine('  one two three', 9, '  ')).toEqual({ rows: ['  one two'], rest: '  three' })
    expect(wrapLine('abcdefghij', 4)).toEqual({ rows: ['abcd', 'efgh'], rest: 'ij' })
    const styled = wrapLine('\u001b[1mone two\u001b[0m', 5)
    expect(styled.rows).toEqual(['\u001b[1mone\u001b[0m'])
    expect(styled.rest).toBe('\u001b[1mtwo\u001b[0m')
  })

  it('shows the rows around the caret of a long text', () => {
    const text = Array.from({ length: 100 }, (_, at) => `line ${at}`).join('\n')
    const { rows, row, before } = inputRows({ prompt: '> ', text, caret: text.indexOf('line 50') + 4 }, 40, 5)
    expect(rows).toHaveLength(5)
    expect(rows[row]).toBe('  line 50')
    expect(before).toBe('  line')
  })
})
