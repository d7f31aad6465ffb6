import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { describeRepository } from './user-repository.ts'

describe("the name of a user's repository", () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'waymark-named-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))
  const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args])

  it('is null without a repository, and without a remote', async () => {
    expect(await describeRepository(folder)).toEqual({ repository: null, branch: null })
    git('init', '-q', '-b', 'feature/cart')
    expect(await describeRepository(folder)).toEqual({ repository: null, branch: 'feature/cart' })
  })

  it.each([
    ['https://user:secret@example.org/acme/shop.git', 'acme/shop'],
    ['git@example.org:acme/shop.git', 'acme/shop'],
    ['ssh://git@example.org:22/deep/acme/shop', 'acme/shop'],
    ['/srv/git/shop.git', 'git/shop'],
  ])('is the path of %s, without host and credentials', async (url, name) => {
    git('init', '-q', '-b', 'main')
    git('remote', 'add', 'upstream', 'https://example.org/other/other.git')
    git('remote', 'add', 'origin', url)
    expect(await describeRepository(folder)).toEqual({ repository: name, branch: 'main' })
  })
})
