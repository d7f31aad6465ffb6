import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  readdirSync,
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
import { everythingIn, filesOf, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'

let one: TestWorkspace
afterEach(() => one.close())

const { at, write, read, age, listed } = filesOf(() => one)

describe('a blame', () => {
  it('refuses a history that takes too long, and goes on working', async () => {
    one = openTestWorkspace({ blameMs: 0 })
    write('a.txt', 'one\n')
    const steps = [{ checkpoint: await one.checkpoint(), author: 'outside' as const }]
    await expect(one.workspace.blame(steps, 'a.txt', null)).rejects.toThrow(/too long to blame/)
    await expect(one.workspace.earlierPaths([], 'a.txt')).rejects.toThrow(/too long to blame/)
    write('a.txt', 'two\n')
    expect(listed(await one.checkpoint())).toEqual(['a.txt'])
  })
})

describe('a checkpoint', () => {
  it('[W3] captures hidden files that git tracks, and no other hidden ones', async () => {
    one = openTestWorkspace()
    write('.gitignore', 'out/\n')
    write('.github/workflows/ci.yml', 'on: push\n')
    write('.github/secrets.txt', 'mine')
    write('.env', 'SECRET=1')
    write('src/.eslintrc', '{}')
    execFileSync('git', ['init', '-q', one.root])
    const git = (...args: string[]) => execFileSync('git', ['-C', one.root, ...args])
    git('add', '.gitignore', '.github/workflows/ci.yml', 'src/.eslintrc')
    const tracked = ['.github/workflows/ci.yml', '.gitignore', 'src/.eslintrc']
    expect(listed(await one.checkpoint())).toEqual(tracked)
    git('add', '-f', '.env')
    expect(listed(await one.checkpoint())).toEqual(['.env', ...tracked])
    git('rm', '-q', '--cached', '.env')
    const after = await one.checkpoint()
    expect(listed(after)).toEqual(tracked)
    expect(await one.workspace.leftOut(after)).toContainEqual({ path: '.env', reason: 'hidden' })
    // A restore recreates a tracked file, and never touches the others.
    rmSync(at('.github/workflows/ci.yml'))
    await one.restore(after)
    expect(read('.github/workflows/ci.yml')).toBe('on: push\n')
    expect([read('.env'), read('.github/secrets.txt')]).toEqual(['SECRET=1', 'mine'])
  })

  it('[W2] has the exact bytes, exec bits and links, whatever git attributes say', async () => {
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

  it('[W2] has files with unusual names and files of nested repositories', async () => {
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

  it('[W3] leaves out excluded files, and records why', async () => {
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

  it('sees a change within the same second that keeps the size and the times', async () => {
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

  it('[W7] fails with an error when the store is broken, and the next one is correct', async () => {
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

  it('has a file that is no longer ignored, and lacks one that is ignored now', async () => {
    one = openTestWorkspace()
    write('.gitignore', 'a.txt\n')
    write('a.txt', 'a')
    write('b.txt', 'b')
    expect(listed(await one.checkpoint())).toEqual(['b.txt'])
    write('.gitignore', 'b.txt\n')
    expect(listed(await one.checkpoint())).toEqual(['a.txt'])
  })
})

describe('upkeep', () => {
  it('merges packs when there are many, and drops unreachable objects', async () => {
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
    const { before, after } = await one.workspace.collect(kept, Number.MAX_SAFE_INTEGER, 0)
    expect(after.bytes).toBeLessThan(before.bytes)
    expect(() => one.git('cat-file', '-e', ids[10] ?? '')).toThrow()
    await one.restore(kept[0] ?? '')
    expect(read('f1')).toContain('version 50')
    // Dropped content is stored again when it reappears.
    write('f3', `version 10 ${'x'.repeat(500)}`)
    const again = await one.checkpoint()
    expect(one.git('cat-file', 'blob', `${again}:f3`)).toContain('version 10')
    expect(one.git('fsck', '--full')).not.toMatch(/missing|broken|error/)
  })

  it('removes files that a killed process left', async () => {
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
