import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { everythingIn, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'
import { writeBranches } from './repository.ts'

let one: TestWorkspace
afterEach(() => one.close())

const at = (path: string) => join(one.root, path)
const write = (path: string, text: string | Buffer) => {
  mkdirSync(join(one.root, path, '..'), { recursive: true })
  writeFileSync(at(path), text)
}
const read = (path: string) => readFileSync(at(path), 'utf8')
/** Longer ago than file systems round to. */
const age = (path: string) => utimesSync(at(path), new Date(0), new Date(0))
const listed = (checkpoint: string) =>
  one.git('ls-tree', '-r', '--name-only', '-z', checkpoint).split('\0').slice(0, -1)

describe('a checkpoint', () => {
  it('[W2] has the bytes, the exec bits and the links, whatever git would make of them', async () => {
    one = openTestWorkspace()
    write('.gitattributes', '* text=auto eol=lf filter=upper\n')
    write('crlf.txt', 'a\r\nb\r\n')
    write('run.sh', '#!/bin/sh\n')
    chmodSync(at('run.sh'), 0o755)
    symlinkSync('../outside', at('link'))
    write('bytes.bin', Buffer.from([0, 255, 10, 13, 0]))
    const id = await one.checkpoint()
    expect(one.git('cat-file', 'blob', `${id}:crlf.txt`)).toBe('a\r\nb\r\n')
    expect(one.git('cat-file', 'blob', `${id}:bytes.bin`)).toBe('\u0000\u00ff\n\r\u0000')
    expect(one.git('ls-tree', id)).toMatch(/100755 blob \w+\trun\.sh/)
    expect(one.git('ls-tree', id)).toMatch(/120000 blob \w+\tlink/)
    expect(one.git('cat-file', 'blob', `${id}:link`)).toBe('../outside')
    expect(one.git('fsck', '--full', '--strict')).not.toMatch(/error|missing|broken/)
  })

  it('[W2] has files with odd names, and those of nested repositories', async () => {
    one = openTestWorkspace()
    const names = [
      'a "quoted" name',
      'new\nline',
      'tab\there',
      "it's",
      'back\\slash',
      'ümläut',
      ' ',
      '"',
      '-n',
    ]
    for (const name of names) write(name, name)
    const bytes = Buffer.concat([Buffer.from(one.root), Buffer.from('/not-\xff\xfe-text', 'latin1')])
    writeFileSync(bytes, 'bytes')
    execFileSync('git', ['init', '-q', at('nested')])
    write('nested/inner.txt', 'inner')
    const id = await one.checkpoint()
    const found = listed(id)
    for (const name of names) expect(found).toContain(Buffer.from(name).toString('latin1'))
    expect(found).toContain('not-\xff\xfe-text')
    expect(found).toContain('nested/inner.txt')
    expect(found.some((path) => path.includes('.git'))).toBe(false)
    const before = everythingIn(one.root)
    for (const name of [...names, 'nested/inner.txt']) unlinkSync(at(name))
    unlinkSync(bytes)
    const report = await one.restore(id)
    expect(report.skipped).toEqual([])
    expect(report.restored).toContain('"not-\\377\\376-text"')
    expect(report.restored).toContain('"\\""')
    expect(everythingIn(one.root)).toEqual(before)
    unlinkSync(bytes)
    expect((await one.restore(id, ['"not-\\377\\376-text"'])).restored).toEqual(['"not-\\377\\376-text"'])
  })

  it('[W3] leaves out what should be, and says why', async () => {
    one = openTestWorkspace({
      maxFileBytes: 100,
      exclude: ['secret/'],
      include: ['.env', 'dist/keep/**', '.git/config'],
    })
    write('.gitignore', '*.log\n/out\n!keep.log\n')
    write('sub/.gitignore', '!deep.log\nlocal.txt\n')
    const kept = [
      'a.txt',
      'keep.log',
      'sub/deep.log',
      'sub/out/x.txt',
      '.env',
      'dist/keep/x/y.js',
      'builder/x',
    ]
    const left = {
      'b.log': 'gitignore',
      'out/': 'gitignore',
      'sub/local.txt': 'gitignore',
      '.hidden': 'hidden',
      '.gitignore': 'hidden',
      'sub/.gitignore': 'hidden',
      'node_modules/': 'default',
      'sub/venv/': 'default',
      'lib.so': 'default',
      'secret/': 'setting',
      'large.bin': 'size',
      '.git/': 'repository',
    }
    for (const path of [...kept, ...Object.keys(left)]) {
      if (path.endsWith('/')) write(`${path}file`, path)
      else if (!path.endsWith('.gitignore')) write(path, path)
    }
    write('large.bin', 'x'.repeat(101))
    write('dist/other.js', 'x')
    execFileSync('mkfifo', [at('pipe')])
    const id = await one.checkpoint()
    expect(listed(id).sort()).toEqual([...kept].sort())
    const found = Object.fromEntries(
      (await one.workspace.leftOut(id)).map(({ path, reason }) => [path, reason]),
    )
    expect(found).toEqual({ ...left, pipe: 'special', 'dist/other.js': 'default' })
  })

  it('[W3] agrees with git about nested .gitignore files', async () => {
    one = openTestWorkspace()
    execFileSync('git', ['init', '-q', one.root])
    write('.gitignore', 'a*\n!ab*\n/top\nx/**/z\n*.tmp\n!/y/\ny/q\nspace\\ \n#no\n\\#yes\n[b-d]?\nfoo/\n')
    write('x/.gitignore', '!a1\n*.md\n!m.md\n')
    write('y/.gitignore', '*\n!.gitignore\n!k\n')
    const names = [
      'a1',
      'ab1',
      'top',
      'q',
      'z',
      't.tmp',
      'm.md',
      'n.md',
      'k',
      'space ',
      '#no',
      '#yes',
      'c1',
      'foo',
      'bar',
    ]
    for (const folder of ['', 'x/', 'x/p/', 'x/p/r/', 'y/', 'y/s/', 'foo2/']) {
      for (const name of names) write(`${folder}${name}`, '1')
    }
    const ours = new Set(listed(await one.checkpoint()))
    const all = [...everythingIn(one.root, ['.waymark', '.git']).keys()].filter((path) => !path.endsWith('/'))
    const untracked = execFileSync('git', ['ls-files', '-z', '--others', '--exclude-standard'], {
      cwd: one.root,
    })
    const theirs = new Set(
      untracked
        .toString()
        .split('\0')
        .filter((path) => path && !path.includes('.gitignore') && !path.startsWith('.waymark')),
    )
    expect([...ours].sort()).toEqual([...theirs].sort())
    expect(all.length).toBeGreaterThan(ours.size)
  })

  it('sees a change that keeps the size and the times, within the same second', async () => {
    one = openTestWorkspace()
    write('a.txt', 'one')
    const first = await one.checkpoint()
    const { mtime, atime } = statSync(at('a.txt'))
    write('a.txt', 'two')
    utimesSync(at('a.txt'), atime, mtime)
    const second = await one.checkpoint()
    expect(one.git('cat-file', 'blob', `${first}:a.txt`)).toBe('one')
    expect(one.git('cat-file', 'blob', `${second}:a.txt`)).toBe('two')
  })

  it('[W7] that can not be made is an error, and the next one is right', async () => {
    one = openTestWorkspace()
    write('a.txt', 'one')
    await one.checkpoint()
    write('a.txt', 'two')
    const packs = join(one.dataDir, 'store/objects/pack')
    renameSync(packs, `${packs}-away`)
    writeFileSync(packs, 'in the way')
    await expect(one.checkpoint()).rejects.toThrow()
    rmSync(packs)
    renameSync(`${packs}-away`, packs)
    const id = await one.checkpoint()
    expect(one.git('cat-file', 'blob', `${id}:a.txt`)).toBe('two')
  })

  it('a file that was ignored and no longer is comes in, and the other way about', async () => {
    one = openTestWorkspace()
    write('.gitignore', 'a.txt\n')
    write('a.txt', 'a')
    write('b.txt', 'b')
    expect(listed(await one.checkpoint())).toEqual(['b.txt'])
    write('.gitignore', 'b.txt\n')
    expect(listed(await one.checkpoint())).toEqual(['a.txt'])
  })
})

describe('a restore', () => {
  it('[W4] brings back what was there and deletes only what the safety checkpoint has', async () => {
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

  it('[W4] of some paths leaves the others', async () => {
    one = openTestWorkspace()
    for (const path of ['a/1', 'a/2', 'b/1', 'c']) write(path, 'before')
    const target = await one.checkpoint()
    for (const path of ['a/1', 'a/2', 'b/1', 'c']) write(path, 'after')
    write('a/3', 'new')
    const report = await one.restore(target, ['a', 'c'])
    expect(report).toEqual({ restored: ['a/1', 'a/2', 'c'], deleted: ['a/3'], skipped: [] })
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
      { path: 'deleted', reason: 'it was deleted meanwhile' },
      { path: 'edited', reason: 'it has changed meanwhile' },
      { path: 'extra', reason: 'it has changed meanwhile' },
      { path: 'new-then-made', reason: 'something that was not saved is in its place' },
      { path: 'replaced', reason: 'it has changed meanwhile' },
    ])
    expect(report.restored).toEqual(['doomed'])
    expect(read('edited')).toBe('meanwhile')
    expect(read('extra')).toBe('meanwhile')
    expect(read('new-then-made')).toBe('meanwhile')
    expect(readlinkSync(at('replaced'))).toBe('/etc/passwd')
  })

  it('[W4] never follows a link out of the workspace, made before or in the middle', async () => {
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
      { path: 'file', reason: 'it has changed meanwhile' },
      { path: 'folder/file', reason: 'a symbolic link, or a file that was not saved, is in the way' },
    ])
    onPlanned = () => {}
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('theirs')
    // Saved as a link by now, it makes room; what it leads to is not touched.
    expect((await one.restore(target)).skipped).toEqual([])
    expect(read('folder/file')).toBe('before')
    expect(lstatSync(at('folder')).isDirectory()).toBe(true)
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('theirs')
  })

  it('[W4] never touches what no checkpoint has', async () => {
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

  it('[W4] keeps a file that was there then, but left out', async () => {
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
    // The system lets an administrator write anywhere: somebody else does it.
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
      { path: 'locked/file', reason: 'the file system does not permit it' },
      { path: 'locked/gone', reason: 'the file system does not permit it' },
    ])
    expect(read('ok')).toBe('before')
    expect(read('locked/file')).toBe('after')
    await one.reopen()
  })

  it('[W3] brings back a left-out file that a tool overwrote or deleted, and takes away one that it made', async () => {
    one = openTestWorkspace()
    write('.env', 'SECRET=1')
    write('.old', 'old')
    chmodSync(at('.env'), 0o600)
    const target = await one.checkpoint()
    for (const path of ['.env', '.old', 'dist/made.js']) await one.workspace.beforeWrite(path)
    write('.env', 'SECRET=2')
    rmSync(at('.old'))
    write('dist/made.js', 'made')
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

  it('[W3] a file that a tool wrote stays captured when a rule leaves it out from then on', async () => {
    one = openTestWorkspace()
    await one.checkpoint()
    await one.workspace.beforeWrite('out/made.js')
    write('out/made.js', 'made')
    write('out/other.js', 'other')
    write('.gitignore', 'out/\n')
    expect(listed(await one.checkpoint())).toEqual(['out/made.js'])
  })

  it('leaves hard links to what it replaces alone', async () => {
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

describe('what attacks have shown', () => {
  const tool = async (path: string, text: string) => {
    await one.workspace.beforeWrite(path)
    write(path, text)
  }

  it('[W4] what is taken back is what the restore did, and nothing that others did since', async () => {
    one = openTestWorkspace()
    for (const path of ['ours', 'theirs', 'other']) write(path, 'then')
    const target = await one.checkpoint()
    for (const path of ['ours', 'theirs']) write(path, 'now')
    const safety = await one.checkpoint()
    await one.workspace.restore({ target, safety, paths: null })
    write('theirs', 'edited meanwhile')
    write('other', 'edited meanwhile')
    write('new', 'made meanwhile')
    const report = await one.workspace.undo({ target, safety, paths: null })
    expect(report.restored).toEqual(['ours'])
    expect(report.skipped.map((skip) => skip.path)).toEqual(['theirs'])
    expect([read('ours'), read('theirs'), read('other'), read('new')]).toEqual([
      'now',
      'edited meanwhile',
      'edited meanwhile',
      'made meanwhile',
    ])
  })

  it('[W5] a restore that is done again never writes into a file that is in place already', async () => {
    one = openTestWorkspace()
    write('f', 'then')
    const target = await one.checkpoint()
    write('f', 'now')
    const safety = await one.checkpoint()
    // Killed between putting the new file in place and dropping its other name.
    const fresh = join(one.dataDir, 'tmp/restore', `fresh-${createHash('sha1').update('f').digest('hex')}`)
    mkdirSync(join(fresh, '..'), { recursive: true })
    write('f', 'then')
    linkSync(at('f'), fresh)
    chmodSync(fresh, 0o444)
    writeFileSync(at('f'), 'then, and edited in place')
    const report = await one.workspace.restore({ target, safety, paths: null })
    expect(report.skipped).toEqual([{ path: 'f', reason: 'it has changed meanwhile' }])
    expect(read('f')).toBe('then, and edited in place')
  })

  it('[W5] what was taken aside and never compared is rescued, not dropped', async () => {
    one = openTestWorkspace()
    write('f', 'then')
    const target = await one.checkpoint()
    write('f', 'now')
    const safety = await one.checkpoint()
    const taken = join(one.dataDir, 'tmp/restore', `taken-${createHash('sha1').update('f').digest('hex')}`)
    mkdirSync(join(taken, '..'), { recursive: true })
    writeFileSync(taken, 'saved by an editor in that moment')
    write('f', 'something else again')
    const report = await one.workspace.restore({ target, safety, paths: null })
    expect(report.skipped).toHaveLength(1)
    const [rescued = ''] = (await one.workspace.condition()).rescued
    expect(readFileSync(join(one.dataDir, 'rescued', rescued), 'utf8')).toBe(
      'saved by an editor in that moment',
    )
  })

  it('keeps checkpoints whose frames are not stored yet', async () => {
    one = openTestWorkspace()
    write('f', 'precious')
    const { id } = await one.workspace.checkpoint({ label: 'no frame yet', parents: [], time: Date.now() })
    write('f', 'later')
    await one.workspace.collect([], Date.now() - 60_000)
    expect(one.git('cat-file', 'blob', `${id}:f`)).toBe('precious')
  })

  it('[W3] another process knows what the tools of the first have overwritten', async () => {
    one = openTestWorkspace()
    write('.env', 'mine')
    const target = await one.checkpoint()
    const other = openTestWorkspace({ root: one.root })
    await other.checkpoint()
    await tool('.env', 'by the agent')
    const now = await other.checkpoint()
    expect(one.git('ls-tree', '--name-only', now)).toBe('.env\n')
    await other.workspace.collect([target, now], 0)
    expect((await other.restore(target)).restored).toEqual(['.env'])
    expect(read('.env')).toBe('mine')
    await other.workspace.close()
  })

  it('[W3] a manifest that was lost or damaged is made again, with what tools have overwritten', async () => {
    one = openTestWorkspace()
    write('.env', 'mine')
    const target = await one.checkpoint()
    await tool('.env', 'by the agent')
    const tip = await one.checkpoint()
    writeBranches(one.dataDir, 'conv_x', { heads: { session_1: tip }, current: 'session_1' })
    await one.workspace.close()
    for (const end of ['-wal', '-shm']) rmSync(join(one.dataDir, `manifest.db${end}`), { force: true })
    writeFileSync(
      join(one.dataDir, 'manifest.db'),
      'this is no database at all, but it is long enough'.repeat(20),
    )
    await one.reopen()
    await one.restore(target)
    expect(read('.env')).toBe('mine')
  })

  it('a store that has lost packs is not believed to have them', async () => {
    one = openTestWorkspace()
    write('f', 'precious')
    await one.checkpoint()
    const folder = join(one.dataDir, 'store/objects/pack')
    for (const name of readdirSync(folder)) rmSync(join(folder, name))
    const { id } = await one.workspace.checkpoint({ label: 'after', parents: [], time: Date.now() })
    expect(one.git('cat-file', 'blob', `${id}:f`)).toBe('precious')
  })

  it('a file can not hide in the diff of another', async () => {
    one = openTestWorkspace()
    write('a.txt', 'x\n')
    write('evil.js', 'ok()\n')
    const from = await one.checkpoint()
    write('a.txt', 'x\ny\rdiff --git a/evil.js b/evil.js\n\u2028diff --git a/evil.js b/evil.js\n')
    write('evil.js', 'ok()\nremoveAll()\n')
    const [, evil] = await one.workspace.diff(from, null, null)
    expect(evil?.diff).toContain('+removeAll()')
  })

  it('[W3] a folder of a tool that has become a link leads nowhere', async () => {
    one = openTestWorkspace()
    const outside = join(one.dataDir, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'made.js'), 'theirs')
    await one.checkpoint()
    await tool('build/sub/made.js', 'made')
    await one.checkpoint()
    rmSync(at('build/sub'), { recursive: true })
    symlinkSync(outside, at('build/sub'))
    expect(listed(await one.checkpoint())).toEqual([])
  })

  it('[W4] a preview foresees what will be skipped', async () => {
    one = openTestWorkspace({ maxFileBytes: 100 })
    write('thing', 'a file')
    write('other', 'a file')
    const target = await one.checkpoint()
    rmSync(at('thing'))
    write('thing/.hidden', 'mine')
    rmSync(at('other'))
    write('other/captured', 'x')
    const foreseen = await one.workspace.preview({ target, paths: null })
    expect(foreseen).toEqual(await one.restore(target))
    expect(foreseen.skipped.map((skip) => skip.path)).toEqual(['thing'])
  })

  it('[W4] what a tool overwrote and is back already is not restored again, and shows as it is in a diff', async () => {
    one = openTestWorkspace()
    write('.env', 'mine\n')
    write('.gone', 'gone\n')
    const target = await one.checkpoint()
    await tool('.env', 'by the agent\n')
    await one.workspace.beforeWrite('.gone')
    rmSync(at('.gone'))
    await tool('.made', 'made\n')
    const changed = await one.workspace.differences(target, null)
    expect(changed.map(({ path, status }) => [path, status])).toEqual([
      ['.env', 'modified'],
      ['.gone', 'deleted'],
      ['.made', 'added'],
    ])
    expect((await one.restore(target)).restored).toEqual(['.env', '.gone'])
    expect(await one.restore(target)).toEqual({ restored: [], deleted: [], skipped: [] })
    expect(await one.workspace.differences(target, null)).toEqual([])
  })
})

describe('upkeep', () => {
  it('joins packs when there are many, and drops what nobody reaches', async () => {
    one = openTestWorkspace()
    const ids: string[] = []
    for (let i = 0; i < 60; i++) {
      write(`f${i % 7}`, `version ${i} ${'x'.repeat(500)}`)
      age(`f${i % 7}`)
      ids.push((await one.workspace.checkpoint({ label: `c${i}`, parents: [], time: Date.now() })).id)
    }
    expect((await one.workspace.condition()).store.packs).toBe(60)
    await one.workspace.tidy()
    expect((await one.workspace.condition()).store.packs).toBeLessThan(3)
    expect(one.git('cat-file', 'blob', `${ids[10]}:f3`)).toContain('version 10')
    const kept = ids.slice(50)
    const { before, after } = await one.workspace.collect(kept, Number.MAX_SAFE_INTEGER)
    expect(after.bytes).toBeLessThan(before.bytes)
    expect(() => one.git('cat-file', '-e', ids[10] ?? '')).toThrow()
    await one.restore(kept[0] ?? '')
    expect(read('f1')).toContain('version 50')
    // What was dropped is stored again when it comes back.
    write('f3', `version 10 ${'x'.repeat(500)}`)
    const again = await one.checkpoint()
    expect(one.git('cat-file', 'blob', `${again}:f3`)).toContain('version 10')
    expect(one.git('fsck', '--full')).not.toMatch(/missing|broken|error/)
  })

  it('clears what a killed process left', async () => {
    one = openTestWorkspace()
    write('a', 'a')
    await one.checkpoint()
    const folder = join(one.dataDir, 'store/objects/pack')
    writeFileSync(join(folder, 'tmp_pack_1234'), 'half')
    writeFileSync(join(folder, 'pack-0000.pack'), 'without an index')
    await one.reopen()
    expect(
      readdirSync(folder).filter((name) => name.startsWith('tmp_') || name.startsWith('pack-0000')),
    ).toEqual([])
  })
})
