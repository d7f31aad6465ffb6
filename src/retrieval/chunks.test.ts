import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { chunksOf, linesOf } from './chunks.ts'
import { fitsAny } from './globs.ts'
import { termsOf, wordsOf } from './words.ts'

describe('chunks of a text', () => {
  it('are whole lines, have at most 1,000 characters, overlap, and leave nothing out', () => {
    const text = readFileSync(new URL('./retrieval.ts', import.meta.url), 'utf8')
    const chunks = chunksOf('retrieval.ts', text)
    expect(chunks.length).toBeGreaterThan(4)
    const seen = new Set<number>()
    for (const [index, chunk] of chunks.entries()) {
      expect(chunk.text.length).toBeLessThanOrEqual(1000)
      expect(linesOf(text, chunk.startLine, chunk.endLine)).toBe(chunk.text)
      const next = chunks[index + 1]
      if (next) expect(next.startLine).toBeLessThanOrEqual(chunk.endLine)
      for (let line = chunk.startLine; line <= chunk.endLine; line++) seen.add(line)
    }
    const missing = text
      .split('\n')
      .flatMap((line, index) => (line.trim() === '' || seen.has(index + 1) ? [] : index + 1))
    expect(missing).toEqual([])
  })

  it('keep their ids when their text has not changed', () => {
    const text = Array.from({ length: 200 }, (_, n) => `line ${n} of a file`).join('\n')
    const before = new Set(chunksOf('a', text).map((chunk) => chunk.id))
    const after = chunksOf('a', text.replace('line 199', 'another 199')).map((chunk) => chunk.id)
    expect(after.filter((id) => !before.has(id))).toHaveLength(1)
  })

  it('handle empty texts and very long lines', () => {
    expect(chunksOf('a', '')).toEqual([])
    expect(chunksOf('a', '\n\n\n')).toEqual([])
    expect(chunksOf('a', 'x'.repeat(50_000))).toHaveLength(1)
    expect(chunksOf('a', `${'x'.repeat(1500)}\n${'y'.repeat(1500)}`)).toHaveLength(2)
  })
})

describe('words', () => {
  it('include the parts of compound names', () => {
    expect(wordsOf('readFile HTTPServer max_file_mb')).toEqual(
      expect.arrayContaining([
        'readfile',
        'read',
        'file',
        'httpserver',
        'http',
        'server',
        'maxfilemb',
        'max',
        'mb',
      ]),
    )
    expect(termsOf('How are retries counted?')).toEqual(expect.arrayContaining(['retries', 'retry', 'count']))
    expect(termsOf('what is the')).toEqual([])
  })

  it('match globs in bounded time', () => {
    expect(fitsAny('src/core/a.ts', ['src/**'])).toBe(true)
    expect(fitsAny('src/core/a.ts', ['src/*.ts'])).toBe(false)
    expect(fitsAny('a.ts', ['**/*.ts'])).toBe(true)
    expect(fitsAny('axts', ['*.ts'])).toBe(false)
    expect(fitsAny('a/b/c', ['**'])).toBe(true)
    expect(fitsAny('a/b/c', ['**/b/*'])).toBe(true)
    expect(fitsAny('a'.repeat(200), [`${'*a'.repeat(120)}!`, `${'**/'.repeat(100)}!`])).toBe(false)
  })
})
