import { array, assert, constantFrom, oneof, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { asciiWords } from './ascii-words.ts'

const pieces = oneof(
  constantFrom('basket', 'basketTotal', 'x1', 'a_b', ' ', '\n', '…', '→', '─', '-', '😀', 'é', '漢', '²'),
  string(),
)

describe('asciiWords', () => {
  it('finds the same words as a regular expression, or leaves the text to one', () => {
    assert(
      property(array(pieces, { maxLength: 40 }), (parts) => {
        const text = parts.join('')
        const expected = [...new Set(text.match(/[\p{L}\p{N}\p{M}_]+/gu))]
        const found = asciiWords(text)
        if (found === null) {
          expect(text).toMatch(/[^\0-\x7f]/)
          return
        }
        expect(found.lowercase).toEqual(expected.filter((word) => /^[a-z]+$/.test(word)))
        expect(found.others).toEqual(expected.filter((word) => !/^[a-z]+$/.test(word)))
      }),
      { numRuns: 500 },
    )
  })

  it('finds each of many words', () => {
    const words = Array.from({ length: 20_000 }, (_, index) => index.toString(36))
    const { lowercase, others } = asciiWords([...words, ...words].join(' ')) ?? { lowercase: [], others: [] }
    expect([...lowercase, ...others].sort()).toEqual(words.toSorted())
  })

  it('finds each word of a text that is made to fill one place of the table, some of them twice', () => {
    const words = Array.from({ length: 200_000 }, (_, index) => index.toString(36))
      .filter((word) => (hashOf(word) & 1023) === 0)
      .slice(0, 150)
    const found = asciiWords([...words, ...words].join(' ').slice(0, 2000))
    const all = [...(found?.lowercase ?? []), ...(found?.others ?? [])]
    expect(all.length).toBeGreaterThan(new Set(all).size)
    expect(new Set(all)).toEqual(new Set(words))
  })
})

function hashOf(word: string): number {
  let hash = 0
  for (let at = 0; at < word.length; at++) hash = Math.imul(hash ^ word.charCodeAt(at), 16777619)
  return hash ^ (hash >>> 15)
}
