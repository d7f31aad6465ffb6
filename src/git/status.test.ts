import { execFileSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type Canary,
  createCanary,
  hostileConfig,
  makeRepository,
  plantGitDir,
  plantHooks,
} from '../../test/hostile/git-canaries.ts'
import { createGit, runGit } from './git.ts'
import { changedFiles, isTracked } from './status.ts'

describe('the status of a git repository', () => {
  let folder: string
  let root: string
  let canary: Canary
  const at = (...parts: string[]) => join(root, ...parts)
  const status = () => changedFiles(root, { path: process.env.PATH ?? '', scratch: join(folder, 'scratch') })
  const paths = async () => (await status()).map(({ path }) => path).sort()
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], {
      cwd: root,
      encoding: 'utf8',
    })

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'waymark-status-'))
    root = join(folder, 'project')
    mkdirSync(at('src'), { recursive: true })
    canary = createCanary(folder)
    writeFileSync(at('src/a.ts'), 'a\n')
    writeFileSync(at('.gitignore'), 'ignored\n')
    makeRepository(root)
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('matches `git status`: changed, staged, deleted, untracked and ignored files', async () => {
    writeFileSync(at('src/b.ts'), 'b\n')
    writeFileSync(at('staged.ts'), 's\n')
    git('add', 'staged.ts')
    git('commit', '-qm', 'second')
    writeFileSync(at('staged.ts'), 't\n')
    git('add', 'staged.ts')
    writeFileSync(at('src/a.ts'), 'changed\n')
    writeFileSync(at('ignored'), 'x')
    writeFileSync(at('excluded'), 'x')
    appendFileSync(at('.git/info/exclude'), 'excluded\n')
    expect(await paths()).toEqual(['src/a.ts', 'src/b.ts', 'staged.ts'])
    rmSync(at('src/a.ts'))
    expect(await status()).toContainEqual({ path: 'src/a.ts', isDeleted: true })
  })

  it('works in a subfolder of the repository, in a linked worktree and before the first commit', async () => {
    writeFileSync(at('src/b.ts'), 'b\n')
    root = at('src')
    expect(await paths()).toEqual(['b.ts'])
    root = join(folder, 'project')
    git('worktree', 'add', '-q', join(folder, 'linked'))
    root = join(folder, 'linked')
    writeFileSync(at('new.ts'), 'n')
    expect(await paths()).toEqual(['new.ts'])
    root = join(folder, 'unborn')
    mkdirSync(root)
    git('init', '-q')
    writeFileSync(at('first.ts'), 'n')
    expect(await paths()).toEqual(['first.ts'])
  })

  it('[T3] follows no `gitdir` link to a repository that does not point back', async () => {
    const other = join(folder, 'other')
    cpSync(root, other, { recursive: true })
    rmSync(at('.git'), { recursive: true })
    writeFileSync(at('.git'), `gitdir: ${join(other, '.git')}\n`)
    expect(await paths()).toEqual([])
  })

  it('leaves the repository unchanged', async () => {
    const before = git('status', '--porcelain=v2', '--branch')
    execFileSync('touch', [at('src/a.ts')])
    const index = execFileSync('sha1sum', [at('.git/index')])
    await paths()
    expect(execFileSync('sha1sum', [at('.git/index')])).toEqual(index)
    expect(git('status', '--porcelain=v2', '--branch')).toBe(before)
  })

  it('[T3] runs no program that the configuration of the project names', async () => {
    writeFileSync(at('.git/config'), hostileConfig(canary, '[include]\n\tpath = more\n'))
    writeFileSync(at('.git/more'), hostileConfig(canary))
    writeFileSync(at('.git/config.worktree'), hostileConfig(canary))
    plantHooks(at('.git/hooks'), canary)
    writeFileSync(at('.gitattributes'), '* filter=c diff=c merge=c text eol=lf\n')
    writeFileSync(
      at('.gitmodules'),
      `[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tupdate = !${canary.command('gitmodules')}\n`,
    )
    mkdirSync(at('sub'))
    plantGitDir(at('sub/.git'), canary)
    writeFileSync(at('src/a.ts'), 'changed\n')
    // A commit whose tree is missing: git would fetch it from the promisor remote.
    writeFileSync(at('.git/refs/heads/main'), `${'1'.repeat(40)}\n`)
    await paths()
    expect(
      await isTracked(root, at('src'), { path: process.env.PATH ?? '', scratch: join(folder, 'scratch') }),
    ).toBe(true)
    expect(canary.marks()).toEqual([])
  })

  it('triggers the canaries when git runs without protection', () => {
    writeFileSync(at('.git/config'), hostileConfig(canary))
    writeFileSync(at('.gitattributes'), '* filter=c\n')
    writeFileSync(at('src/a.ts'), 'changed\n')
    const carelessly = (...args: string[]) => {
      try {
        execFileSync('git', args, { cwd: root, stdio: 'ignore', timeout: 5000 })
      } catch {
        // Only the programs it runs matter, not its exit code.
      }
    }
    carelessly('status', '--porcelain')
    // On a busy machine, git may be killed before it gets there.
    for (let tries = 0; tries < 3 && !canary.marks().includes('ssh'); tries++) {
      carelessly('cat-file', '-p', '1'.repeat(40))
    }
    expect(canary.marks()).toEqual(expect.arrayContaining(['fsmonitor', 'ssh']))
  })

  it.each(['', 'deep/er'])('[T3] does not mistake an ordinary folder for a repository: %j', async (where) => {
    rmSync(at('.git'), { recursive: true })
    plantGitDir(at(where), canary, '[core]\n\tworktree = .\n')
    root = at(where)
    expect(await paths()).toEqual([])
    expect(canary.marks()).toEqual([])
  })

  it('[T3] gives up on a repository that would block it', async () => {
    rmSync(at('.git/index'))
    execFileSync('mkfifo', [at('.git/index'), at('.git/info/pipe')])
    expect(await paths()).toEqual(expect.any(Array))
  })

  it.each([
    ['status', '--porcelain'],
    ['ls-files'],
    ['fsck', '--full'],
    ['rev-list', '--all', '--objects', '--missing=error'],
    ['cat-file', '-p', '1'.repeat(40)],
    ['log', '--all', '--format=%(trailers:key=x)'],
    ['diff-tree', '-p', '--no-ext-diff', '--no-textconv', 'HEAD', '1'.repeat(40)],
    ['pack-objects', '--revs', '--stdout', '--all'],
  ])('[T3] runs no program of a hostile git directory through `git %s`', async (...args) => {
    const hostile = join(folder, 'hostile')
    const linked = join(folder, 'store')
    plantGitDir(hostile, canary)
    writeFileSync(join(hostile, 'refs/heads/main'), `${'1'.repeat(40)}\n`)
    plantGitDir(linked, canary)
    writeFileSync(join(linked, 'commondir'), hostile)
    writeFileSync(join(linked, 'objects/info/alternates'), `${join(hostile, 'objects')}\n`)
    for (const gitDir of [hostile, linked]) {
      const call = { gitDir, args, path: process.env.PATH ?? '', workTree: root, input: 'HEAD\n' }
      await runGit(call).catch(() => {})
      const reader = createGit({ store: gitDir, path: process.env.PATH ?? '' })
      await reader.read('1'.repeat(40)).catch(() => null)
      reader.close()
    }
    expect(canary.marks()).toEqual([])
  })
})
