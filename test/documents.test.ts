import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { generatedDocs } from '../scripts/docs.ts'
import { createProgram } from '../src/cli/program.ts'
import { errorCodes } from '../src/protocol/errors.ts'
import { frameKinds } from '../src/protocol/frame-kinds.ts'
import { settings } from '../src/settings.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const generated = Object.entries(await generatedDocs())

describe('documents', () => {
  it('cite every rule in a test, and only rules that exist', () => {
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

  it.each(generated)('match the output of `npm run docs`: %s', (path, text) => {
    expect(read(path)).toBe(text)
  })

  it('describe every flag of the settings as an option of serve', async () => {
    const serve = (await createProgram()).commands.find((command) => command.name() === 'serve')
    const accepted = new Set(serve?.options.map((option) => option.long))
    // Only commands that connect to a server need its URL.
    const flags = Object.entries(settings).flatMap(([name, { flag }]) =>
      flag === null || name === 'url' ? [] : (flag.split(' ')[0] ?? []),
    )
    expect(flags.filter((flag) => !accepted.has(flag))).toEqual([])
  })

  it('list exactly the frame kinds in docs/spec/frames.md', () => {
    const kinds = [...read('docs/spec/frames.md').matchAll(/^\| `([a-z_.]+)`/gm)].map((match) => match[1])
    expect(new Set(kinds)).toEqual(new Set(frameKinds))
  })

  it('list exactly the error codes in docs/spec/http.md', () => {
    const codes = [...read('docs/spec/http.md').matchAll(/^\| `([a-z_0-9]+)` \| \d+/gm)].map(
      (match) => match[1],
    )
    expect(codes).toEqual([...errorCodes])
  })

  it('have no broken links', () => {
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
