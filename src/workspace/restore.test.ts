import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { everythingIn, filesOf, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'

let one: TestWorkspace
afterEach(() => one.close())

const { at, write, read, listed } = filesOf(() => one)

describe('a restore', () => {
  it('[W4] restores the files of the checkpoint and deletes only files that the safety checkpoint has', async () => {
    one = openTestWorkspace()
    write('same.txt', 'same')
    write('edited.txt', 'before')
    write('gone/deep.txt', 'deep')
    write('was-file', 'file')
    write('was-folder/x', 'x')
    write('mode.sh', 'x')
    write('private', 'p')
    chmodSync(at('private'), 0o600)
    mkdirSync(at('empty'))
    const before = everythingIn(one.root)
    const target = await one.checkpoint()
    const { ino } = statSync(at('same.txt'))
    write('edited.txt', 'after')
    rmSync(at('gone'), { recursive: true })
    rmSync(at('was-file'))
    write('was-file/now-a-folder', 'y')
    rmSync(at('was-folder'), { recursive: true })
    write('was-folder', 'now a file')
    chmodSync(at('mode.sh'), 0o755)
    chmodSync(at('private'), 0o644)
    rmSync(at('empty'), { recursive: true })
    write('new/by/agent.txt', 'new')
    mkdirSync(at('new-empty'))
    write('node_modules/uncaptured.js', 'mine')
    write('new/.hidden', 'mine')
    const report = await one.restore(target)
    expect(report.skipped).toEqual([])
    expect(report.deleted.sort()).toEqual(['new/by/agent.txt', 'was-file/now-a-folder', 'was-folder'].sort())
    expect(report.restored.sort()).toEqual(
      ['edited.txt', 'gone/deep.txt', 'mode.sh', 'private', 'was-file', 'was-folder/x'].sort(),
    )
    expect(statSync(at('same.txt')).ino).toBe(ino)
    expect(existsSync(at('new/by'))).toBe(false)
    const after = everythingIn(one.root)
    for (const path of ['node_modules/', 'node_modules/uncaptured.js', 'new/', 'new/.hidden']) {
      expect(after.delete(path), path).toBe(true)
    }
    expect(after).toEqual(before)
  })

  it('[W4] can be undone', async () => {
    one = openTestWorkspace()
    write('a.txt', 'one')
    const target = await one.checkpoint()
    write('a.txt', 'two')
    write('b.txt', 'new')
    const before = everythingIn(one.root)
    const safety = await one.checkpoint()
    await one.workspace.restore({ target, safety, paths: null })
    expect(read('a.txt')).toBe('one')
    await one.restore(safety)
    expect(everythingIn(one.root)).toEqual(before)
  })

  it('[W4] of some paths leaves the others alone', async () => {
    one = openTestWorkspace()
    for (const path of ['a/1', 'a/2', 'b/1', 'c']) write(path, 'before')
    const target = await one.checkpoint()
    for (const path of ['a/1', 'a/2', 'b/1', 'c']) write(path, 'after')
    write('a/3', 'new')
    const report = await one.restore(target, ['a', 'c'])
    expect(report).toEqual({ restored: ['a/1', 'a/2', 'c'], deleted: ['a/3'], skipped: [], rescued: [] })
    expect(read('b/1')).toBe('after')
  })

  it('[W4] skips and lists a file that changed between plan and act', async () => {
    let onPlanned = () => {}
    one = openTestWorkspace({ onPlanned: () => onPlanned() })
    for (const path of ['edited', 'deleted', 'replaced', 'new-then-made', 'doomed']) write(path, 'before')
    const target = await one.checkpoint()
    for (const path of ['edited', 'deleted', 'replaced']) write(path, 'after')
    rmSync(at('new-then-made'))
    rmSync(at('doomed'))
    write('extra', 'extra')
    onPlanned = () => {
      write('edited', 'meanwhile')
      rmSync(at('deleted'))
      rmSync(at('replaced'))
      symlinkSync('/etc/passwd', at('replaced'))
      write('new-then-made', 'meanwhile')
      write('extra', 'meanwhile')
    }
    const report = await one.restore(target)
    expect(report.skipped).toEqual([
      { path: 'deleted', reason: 'it was deleted in the meantime' },
      { path: 'edited', reason: 'it changed in the meantime' },
      { path: 'extra', reason: 'it changed in the meantime' },
      { path: 'new-then-made', reason: 'an unsaved file or folder is in its place' },
      { path: 'replaced', reason: 'it changed in the meantime' },
    ])
    expect(report.restored).toEqual(['doomed'])
    expect(read('edited')).toBe('meanwhile')
    expect(read('extra')).toBe('meanwhile')
    expect(read('new-then-made')).toBe('meanwhile')
    expect(readlinkSync(at('replaced'))).toBe('/etc/passwd')
  })

  it('[W4] never follows a link out of the workspace, even one made during the restore', async () => {
    let onPlanned = () => {}
    one = openTestWorkspace({ onPlanned: () => onPlanned() })
    const outside = join(one.root, '.waymark', 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'file'), 'theirs')
    write('folder/file', 'before')
    write('file', 'before')
    const target = await one.checkpoint()
    write('folder/file', 'after')
    write('file', 'after')
    onPlanned = () => {
      renameSync(at('folder'), at('moved'))
      symlinkSync(outside, at('folder'))
      rmSync(at('file'))
      symlinkSync(join(outside, 'file'), at('file'))
    }
    const report = await one.restore(target)
    expect(report.skipped).toEqual([
      { path: 'file', reason: 'it changed in the meantime' },
      { path: 'folder/file', reason: 'a symbolic link or an unsaved file is in the way' },
    ])
    onPlanned = () => {}
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('theirs')
    // The safety checkpoint has the link now, so it is replaced; its target is not touched.
    expect((await one.restore(target)).skipped).toEqual([])
    expect(read('folder/file')).toBe('before')
    expect(lstatSync(at('folder')).isDirectory()).toBe(true)
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('theirs')
  })

  it('[W4] never touches files that no checkpoint has', async () => {
    one = openTestWorkspace({ maxFileBytes: 100 })
    write('grows', 'small')
    write('ignored-later', 'then')
    write('folder/x', 'x')
    const target = await one.checkpoint()
    write('grows', 'L'.repeat(200))
    write('ignored-later', 'now')
    write('.gitignore', 'ignored-later\n')
    rmSync(at('folder'), { recursive: true })
    write('folder', 'L'.repeat(200))
    const report = await one.restore(target)
    expect(report.restored).toEqual([])
    expect(report.skipped.map((skip) => skip.path)).toEqual(['folder/x', 'grows', 'ignored-later'])
    expect(read('grows')).toHaveLength(200)
    expect(read('folder')).toHaveLength(200)
    expect(read('ignored-later')).toBe('now')
  })

  it('[W4] keeps a file that existed then but was left out', async () => {
    one = openTestWorkspace()
    write('.gitignore', 'notes/\n')
    write('notes/mine.txt', 'mine')
    const target = await one.checkpoint()
    rmSync(at('.gitignore'))
    const report = await one.restore(target)
    expect(report.deleted).toEqual([])
    expect(report.skipped[0]?.path).toBe('notes/mine.txt')
    expect(read('notes/mine.txt')).toBe('mine')
  })

  it('[W4] lists a file it could not write', async () => {
    one = openTestWorkspace()
    write('ok', 'before')
    write('locked/file', 'before')
    write('locked/gone', 'before')
    const target = await one.checkpoint()
    for (const path of ['ok', 'locked/file']) write(path, 'after')
    rmSync(at('locked/gone'))
    const safety = await one.checkpoint()
    await one.workspace.close()
    // Root can write anywhere, so run the restore as another user.
    const script = `
      import { openWorkspace } from ${JSON.stringify(new URL('./workspace.ts', import.meta.url).pathname)}
      const workspace = openWorkspace(${JSON.stringify({
        root: one.root,
        dataDir: one.dataDir,
        include: [],
        exclude: [],
        maxFileBytes: 1e6,
        umask: 0o22,
        path: process.env.PATH,
        watch: false,
      })})
      console.log(JSON.stringify(await workspace.restore({ target: '${target}', safety: '${safety}', paths: null })))
      await workspace.close()`
    const nobody = { uid: 65_534, gid: 65_534 }
    const isRoot = process.getuid?.() === 0
    if (isRoot) execFileSync('chown', ['-R', '65534:65534', one.root])
    chmodSync(at('locked'), 0o555)
    const report = JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
        ...(isRoot ? nobody : {}),
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    )
    chmodSync(at('locked'), 0o755)
    expect(report.restored).toEqual(['ok'])
    expect(report.skipped).toEqual([
      { path: 'locked/file', reason: 'the file system denied permission' },
      { path: 'locked/gone', reason: 'the file system denied permission' },
    ])
    expect(read('ok')).toBe('before')
    expect(read('locked/file')).toBe('after')
    await one.reopen()
  })

  it('[W3] restores a left-out file that a tool overwrote or deleted, and deletes one that it created', async () => {
    one = openTestWorkspace()
    write('.env', 'SECRET=1')
    write('.old', 'old')
    chmodSync(at('.env'), 0o600)
    const target = await one.checkpoint()
    await one.tool('.env', 'SECRET=2')
    await one.tool('.old', null)
    await one.tool('dist/made.js', 'made')
    write('dist/not-a-tools.js', 'mine')
    const after = await one.checkpoint()
    expect(listed(after)).toEqual(['.env', 'dist/made.js'])
    const report = await one.restore(target)
    expect(report.skipped).toEqual([])
    expect(read('.env')).toBe('SECRET=1')
    expect(statSync(at('.env')).mode & 0o777).toBe(0o600)
    expect(read('.old')).toBe('old')
    expect(existsSync(at('dist/made.js'))).toBe(false)
    expect(read('dist/not-a-tools.js')).toBe('mine')
    await one.reopen()
    expect((await one.restore(after)).skipped).toEqual([])
    expect(read('.env')).toBe('SECRET=2')
    expect(existsSync(at('.old'))).toBe(false)
    expect(read('dist/made.js')).toBe('made')
  })

  it('[W3] still has a file that a tool wrote after an ignore rule excludes it', async () => {
    one = openTestWorkspace()
    await one.checkpoint()
    await one.tool('out/made.js', 'made')
    write('out/other.js', 'other')
    write('.gitignore', 'out/\n')
    expect(listed(await one.checkpoint())).toEqual(['out/made.js'])
  })

  it('leaves other hard links to a replaced file alone', async () => {
    one = openTestWorkspace()
    write('a', 'before')
    const target = await one.checkpoint()
    write('a', 'after')
    linkSync(at('a'), join(one.dataDir, 'other-name'))
    await one.restore(target)
    expect(read('a')).toBe('before')
    expect(readFileSync(join(one.dataDir, 'other-name'), 'utf8')).toBe('after')
  })
})
