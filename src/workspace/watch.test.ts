import { linkSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'
import { createFolderWatch } from './watch.ts'

describe('watching', () => {
  let one: TestWorkspace
  beforeEach(async () => {
    one = openTestWorkspace({ watch: true, watchedFrom: 0 })
    mkdirSync(join(one.root, 'a/b'), { recursive: true })
    writeFileSync(join(one.root, 'a/b/file'), 'one')
    await one.checkpoint()
  })
  afterEach(() => one.close())

  const files = (checkpoint: string) => one.git('ls-tree', '-r', '--name-only', checkpoint).trim().split('\n')

  it('is on, and a checkpoint has the latest changes', async () => {
    expect(await one.workspace.condition()).toMatchObject({ isWatching: true, watchedFolders: 3 })
    for (let i = 0; i < 20; i++) {
      writeFileSync(join(one.root, 'a/b/file'), `version ${i}`)
      expect(one.git('cat-file', 'blob', `${await one.checkpoint()}:a/b/file`)).toBe(`version ${i}`)
    }
    expect(await one.workspace.verifyWatching()).toEqual([])
  })

  it('sees created, moved and deleted folders, and changes in them', async () => {
    mkdirSync(join(one.root, 'x/y/z'), { recursive: true })
    writeFileSync(join(one.root, 'x/y/z/deep'), '1')
    expect(files(await one.checkpoint())).toEqual(['a/b/file', 'x/y/z/deep'])
    writeFileSync(join(one.root, 'x/y/z/deeper'), '2')
    renameSync(join(one.root, 'a/b'), join(one.root, 'x/y/b'))
    expect(files(await one.checkpoint())).toEqual(['x/y/b/file', 'x/y/z/deep', 'x/y/z/deeper'])
    writeFileSync(join(one.root, 'x/y/b/file'), 'moved and changed')
    rmSync(join(one.root, 'x/y/z'), { recursive: true })
    const last = await one.checkpoint()
    expect(files(last)).toEqual(['x/y/b/file'])
    expect(one.git('cat-file', 'blob', `${last}:x/y/b/file`)).toBe('moved and changed')
    expect(await one.workspace.verifyWatching()).toEqual([])
  })

  it('sees changes through another hard link to a file', async () => {
    linkSync(join(one.root, 'a/b/file'), join(one.dataDir, 'other-name'))
    writeFileSync(join(one.root, 'a/b/file'), 'two')
    await one.checkpoint()
    writeFileSync(join(one.dataDir, 'other-name'), 'six')
    expect(one.git('cat-file', 'blob', `${await one.checkpoint()}:a/b/file`)).toBe('six')
  })

  it('is corrected and turned off after it missed a change, and stays off after a restart', async () => {
    // No watch reports a hard link made elsewhere, or writes through it.
    linkSync(join(one.root, 'a/b/file'), join(one.dataDir, 'other-name'))
    writeFileSync(join(one.dataDir, 'other-name'), 'six')
    expect(await one.workspace.verifyWatching()).toEqual(['a/b/file'])
    const { isWatching, watchingFailed } = await one.workspace.condition()
    expect(isWatching).toBe(false)
    expect(watchingFailed).toContain('a/b/file')
    expect(one.git('cat-file', 'blob', `${await one.checkpoint()}:a/b/file`)).toBe('six')
    await one.reopen()
    await one.checkpoint()
    expect((await one.workspace.condition()).isWatching).toBe(false)
  })

  it('triggers a full scan when an ignore file has changed', async () => {
    writeFileSync(join(one.root, 'a/.gitignore'), 'file\n')
    expect(files(await one.checkpoint())).toEqual([''])
    rmSync(join(one.root, 'a/.gitignore'))
    expect(files(await one.checkpoint())).toEqual(['a/b/file'])
  })
})

describe('folder watches', () => {
  it('detect an overflow of the system event queue', async () => {
    const root = mkdtempSync(join(tmpdir(), 'waymark-watch-'))
    mkdirSync(join(root, 'folder'))
    const watch = createFolderWatch({ root, cookies: join(root, 'cookies') })
    watch.add('folder')
    writeFileSync(join(root, 'folder/a'), '1')
    expect(await watch.hints()).toEqual(new Set(['folder/a']))
    expect(await watch.hints()).toEqual(new Set())
    // Without a pause in which the event queue could drain.
    for (let i = 0; i < 20_000; i++) writeFileSync(join(root, `folder/${i % 2}`), String(i))
    expect(await watch.hints()).toBe(null)
    watch.restart()
    expect(await watch.hints()).not.toBe(null)
    watch.close()
    rmSync(root, { recursive: true })
  })
})
