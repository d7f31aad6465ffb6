import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildSite } from '../scripts/site.ts'

describe('the site', () => {
  let out: string
  let pages: string[]
  beforeAll(() => {
    out = mkdtempSync(join(tmpdir(), 'waymark-site-'))
    pages = buildSite(out)
  })
  afterAll(() => rmSync(out, { recursive: true, force: true }))

  it('has a page for every document, and every link and picture leads somewhere', () => {
    const broken: string[] = []
    for (const page of pages) {
      const html = readFileSync(join(out, page), 'utf8')
      for (const [, target = ''] of html.matchAll(/(?:href|src|srcset)="([^"]+)"/g)) {
        if (/^[a-z]+:/.test(target)) continue
        const [file = '', anchor] = target.split('#')
        const path = file === '' ? page : join(dirname(page), file)
        if (!existsSync(join(out, path))) broken.push(`${page}: ${target}`)
        else if (anchor !== undefined && !readFileSync(join(out, path), 'utf8').includes(`id="${anchor}"`))
          broken.push(`${page}: ${target}`)
      }
    }
    expect(broken).toEqual([])
    expect(pages.length).toBeGreaterThan(25)
  })
})
