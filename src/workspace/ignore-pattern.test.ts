import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rounds } from '../../test/support/soak.ts'
import { createIgnoreRules, type FolderRules } from './ignore-rules.ts'

const names = ['a', 'b', 'ab', 'abc', 'a b', 'x.log', '#c', '!d', 'A', 'é', 'f]', 'g*', 'h\\', 'n1']

describe('.gitignore patterns', () => {
  let root: string
  const files: string[] = []

  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'waymark-ignore-'))
    execFileSync('git', ['init', '-q'], { cwd: root })
    for (const one of names) {
      for (const path of [one, `d/${one}`, `d/e/${one}`, `a.d/b.d/${one}`, `d/e/f/a/${one}`]) {
        files.push(path)
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), '')
      }
    }
  })
  afterAll(() => rmSync(root, { recursive: true, force: true }))

  /** The files that are not ignored, walking down from the root as a scan does. */
  function left(text: string): string[] {
    const rules = createIgnoreRules({ include: [], exclude: [] })
    const bytes = (one: string) => Buffer.from(one).toString('latin1')
    const of = (path: string): FolderRules =>
      path === ''
        ? rules.below(null, '', bytes(text), null)
        : rules.below(of(path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : ''), path, null, null)
    return files.filter((file) => {
      const parts = bytes(file).split('/')
      return parts.every(
        (name, index) =>
          rules.reason(of(parts.slice(0, index).join('/')), name, index < parts.length - 1, null) === null,
      )
    })
  }

  function leftByGit(text: string): string[] {
    writeFileSync(join(root, '.gitignore'), text)
    const options = { cwd: root, encoding: 'utf8' as const }
    const listed = execFileSync(
      'git',
      ['ls-files', '-z', '-o', '--exclude-per-directory=.gitignore'],
      options,
    )
    return listed.split('\0').filter((path) => path !== '' && path !== '.gitignore')
  }

  const piece = fc.constantFrom(
    'a',
    'b',
    'c',
    'd',
    'e',
    '*',
    '**',
    '?',
    '/',
    '/',
    '**/',
    '/**',
    '[ab]',
    '[!a]',
    '[^b-c]',
    '[a',
    '[]a]',
    '[[:alpha:]]',
    '[[:x:]]',
    '\\',
    '\\*',
    '\\ ',
    ' ',
    '.',
    '.log',
    '#',
    '!',
    'é',
    '\r',
    '[\\]]',
    '[a-]',
    '***',
    '\\/',
  )
  const line = fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join(''))

  it('[T9] match the same files as git does', () => {
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 4 }), (lines) => {
        const text = `${lines.join('\n')}\n`
        expect(left(text).sort(), JSON.stringify(text)).toEqual(leftByGit(text).sort())
      }),
      { numRuns: rounds(400, 5000) },
    )
  })

  it.each([
    `${'a/**/'.repeat(14)}b`,
    `${'**/a/'.repeat(60)}z`,
    `${'*a'.repeat(200)}z`,
    `${'[a-z]*'.repeat(100)}9`,
  ])('[T9] match in bounded time, even for a pathological pattern: %s', (pattern) => {
    const rules = createIgnoreRules({ include: [], exclude: [] })
    const deep = Array.from({ length: 400 }, () => 'a').join('/')
    const root = rules.below(null, '', pattern, null)
    const at = { ...root, folder: deep, text: null, matcher: null, parent: root } as FolderRules
    const before = process.cpuUsage()
    for (let i = 0; i < 50; i++) expect(rules.reason(at, 'a'.repeat(200), false, null)).toBeNull()
    // A backtracking matcher takes minutes; the benches measure the actual speed.
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(10)
  })
})
