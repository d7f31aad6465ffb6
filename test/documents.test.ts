import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { generatedDocs } from '../scripts/docs.ts'
import { errorCodes } from '../src/protocol/errors.ts'
import { frameKinds } from '../src/protocol/frame-kinds.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

describe('the documents', () => {
  it('every rule in docs is cited by a test, and every citation is a rule', () => {
    const rules = [...filesBelow('docs/spec', /\.md$/), 'docs/security.md'].flatMap((path) =>
      [...read(path).matchAll(/^- \*\*([A-Z]\d+)\*\*/gm)].map((match) => match[1]),
    )
    const cited = [
      ...filesBelow('src', /\.(test|contract)\.ts$/),
      ...filesBelow('test', /\.test\.ts$/),
    ].flatMap((path) => [...read(path).matchAll(/\[([A-Z]\d+)\]/g)].map((match) => match[1]))
    expect(rules.length).toBeGreaterThan(10)
    expect(new Set(rules).size).toBe(rules.length)
    expect(new Set(cited)).toEqual(new Set(rules))
  })

  it.each(Object.entries(generatedDocs()))('%s is what `npm run docs` makes', (path, text) => {
    expect(read(path)).toBe(text)
  })

  it('docs/spec/frames.md has every kind, and no other', () => {
    const kinds = [...read('docs/spec/frames.md').matchAll(/^\| `([a-z_.]+)`/gm)].map((match) => match[1])
    expect(new Set(kinds)).toEqual(new Set(frameKinds))
  })

  it('docs/spec/http.md has every error code, and no other', () => {
    const codes = [...read('docs/spec/http.md').matchAll(/^\| `([a-z_0-9]+)` \| \d+/gm)].map(
      (match) => match[1],
    )
    expect(codes).toEqual([...errorCodes])
  })

  it('every link between documents leads somewhere', () => {
    const documents = [
      'README.md',
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'GLOSSARY.md',
      ...filesBelow('docs', /\.md$/),
    ]
    for (const document of documents) {
      for (const [, target = ''] of read(document).matchAll(/\]\((?!https?:)([^)#]+)/g)) {
        expect(
          () => readFileSync(join(root, document, '..', target)),
          `${document} → ${target}`,
        ).not.toThrow()
      }
    }
  })
})

function filesBelow(folder: string, name: RegExp): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
}
