import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ask } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

describe('committing approved files', () => {
  let project: string
  let home: string
  let server: TestServer
  let id: string
  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-commit-'))
    home = mkdtempSync(join(tmpdir(), 'waymark-commit-home-'))
    vi.stubEnv('HOME', home)
    writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Ada Example\n\temail = ada@example.org\n')
    git('init', '-q', '-b', 'main')
    put('kept.txt', 'kept\n')
    put('old.txt', 'old\n')
    git('add', '.')
    git('commit', '-q', '-m', 'first')
    server = await startTestServer({ project })
    id = (await server.client.createConversation({ title: 'Baskets' })).id
  })
  afterEach(async () => {
    await server.close()
    vi.unstubAllEnvs()
    for (const folder of [project, home]) rmSync(folder, { recursive: true, force: true })
  })

  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: project, encoding: 'utf8', env: { ...process.env, HOME: home } })
  const put = (path: string, text: string) => writeFileSync(join(project, path), text)
  const write = (path: string, content: string) => `!write_to_file ${JSON.stringify({ path, content })}`
  async function work(): Promise<void> {
    await ask(
      server,
      id,
      ['Fill the basket', write('new.txt', 'new\n'), write('kept.txt', 'kept\nand more\n')].join('\n'),
    )
    await ask(server, id, 'Remove the old\n!delete_file {"path":"old.txt"}')
    await server.client.approve(id, {})
  }

  it('[W12] adds exactly the approved files to the current branch, with the configured author and a proposed message', async () => {
    await work()
    // Changes since the approval, staged or not, are not part of it.
    put('later.txt', 'later\n')
    put('kept.txt', 'kept\nand more\nand even more\n')
    put('staged.txt', 'staged\n')
    git('add', 'staged.txt')
    const shown = await server.client.commit(id, { dry_run: true })
    expect(shown).toMatchObject({ commit: null, branch: 'main', author: 'Ada Example <ada@example.org>' })
    expect(git('log', '--format=%s').trim()).toBe('first')
    const done = await server.client.commit(id, {})
    expect(done.files).toEqual([
      { path: 'kept.txt', change: 'modified' },
      { path: 'new.txt', change: 'added' },
      { path: 'old.txt', change: 'deleted' },
    ])
    expect(git('rev-parse', 'main').trim()).toBe(done.commit)
    expect(git('show', '--format=%an <%ae>%n%B', '--name-status', 'HEAD').trim()).toBe(
      'Ada Example <ada@example.org>\nBaskets\n\n- Fill the basket !write_to_file {"path":"new.txt","\n- Remove the old !delete_file {"path":"old.txt"}\n\n\nM\tkept.txt\nA\tnew.txt\nD\told.txt',
    )
    expect(git('show', 'HEAD:kept.txt')).toBe('kept\nand more\n')
    expect(git('status', '--porcelain').trimEnd().split('\n').sort()).toEqual([
      ' M kept.txt',
      '?? later.txt',
      'A  staged.txt',
    ])
    expect(git('fsck', '--strict')).toBe('')
    expect(git('reflog', '-1', '--format=%gs').trim()).toBe('commit (waymark): Baskets')
    await expect(server.client.commit(id, {})).rejects.toMatchObject({ code: 'commit_refused' })
  })

  it('creates a new branch without switching to it', async () => {
    await work()
    const before = git('status', '--porcelain')
    const done = await server.client.commit(id, { branch: 'agent/baskets', message: 'Baskets\n\nby hand' })
    expect(git('rev-parse', 'agent/baskets').trim()).toBe(done.commit)
    expect(git('log', '-1', '--format=%B', 'agent/baskets').trim()).toBe('Baskets\n\nby hand')
    expect(git('symbolic-ref', '--short', 'HEAD').trim()).toBe('main')
    expect(git('log', '--format=%s', 'main').trim()).toBe('first')
    expect(git('status', '--porcelain')).toBe(before)
    await expect(server.client.commit(id, { branch: 'agent/baskets' })).rejects.toThrow(/exists already/)
    for (const branch of ['-x', 'a..b', 'HEAD', '../../hooks/x', 'a b']) {
      await expect(server.client.commit(id, { branch })).rejects.toMatchObject({ code: 'commit_refused' })
    }
  })

  it('[W12] runs nothing of the repository: no hooks, filters, signing programs or monitors', async () => {
    const canary = join(project, 'ran')
    const script = `#!/bin/sh\ntouch '${canary}'\ncat\n`
    const program = join(home, 'program')
    writeFileSync(program, script)
    chmodSync(program, 0o755)
    for (const hook of [
      'pre-commit',
      'commit-msg',
      'post-commit',
      'reference-transaction',
      'post-index-change',
      'prepare-commit-msg',
    ]) {
      writeFileSync(join(project, '.git/hooks', hook), script)
      chmodSync(join(project, '.git/hooks', hook), 0o755)
    }
    writeFileSync(
      join(project, '.git/config'),
      `${readFileSync(join(project, '.git/config'), 'utf8')}
[core]
	fsmonitor = ${program}
	hooksPath = .git/hooks
[commit]
	gpgSign = true
[gpg]
	program = ${program}
[filter "evil"]
	clean = ${program}
	smudge = ${program}
	process = ${program}
	required = true
`,
    )
    put('.gitattributes', '*.bin filter=evil\n')
    await ask(server, id, [write('new.txt', 'new\n'), write('x.bin', 'raw')].join('\n'))
    await server.client.approve(id, {})
    const done = await server.client.commit(id, {})
    expect(done.files).toEqual([{ path: 'new.txt', change: 'added' }])
    expect(done.skipped).toEqual([
      { path: 'x.bin', reason: 'git changes it with the filter evil; commit it yourself' },
    ])
    expect(existsSync(canary)).toBe(false)
  })

  it('[W12] overwrites no branch, packed or not, and no folder of branches', async () => {
    await work()
    git('branch', 'kept')
    git('branch', 'group/one')
    git('pack-refs', '--all')
    const before = git('for-each-ref')
    for (const branch of ['kept', 'kept/x', 'group', 'main/x']) {
      await expect(server.client.commit(id, { branch })).rejects.toMatchObject({ code: 'commit_refused' })
    }
    expect(git('for-each-ref')).toBe(before)
    await server.client.commit(id, { branch: 'group/two' })
  })

  it('[W12] leaves a split index readable', async () => {
    git('update-index', '--split-index')
    await work()
    await server.client.commit(id, {})
    expect(
      git('status', '--porcelain')
        .split('\n')
        .filter((line) => !line.startsWith('??'))
        .join(''),
    ).toBe('')
  })

  it('[W12] reverts nothing that was committed after the approval', async () => {
    await work()
    put('kept.txt', 'kept\nand more\nby a person\n')
    git('add', 'kept.txt')
    // A second later, because git counts in seconds.
    execFileSync('git', ['commit', '-q', '-m', 'later'], {
      cwd: project,
      env: { ...process.env, HOME: home, GIT_COMMITTER_DATE: new Date(Date.now() + 2000).toISOString() },
    })
    const done = await server.client.commit(id, {})
    expect(done.skipped).toEqual([{ path: 'kept.txt', reason: 'a commit after the approval has changed it' }])
    expect(git('show', 'HEAD:kept.txt')).toBe('kept\nand more\nby a person\n')
  })

  it('[W12] is not held up by pipes in place of settings', async () => {
    await work()
    const config = join(project, '.git/config')
    rmSync(config)
    execFileSync('mkfifo', [config])
    expect((await server.client.commit(id, { dry_run: true })).files.length).toBeGreaterThan(0)
    rmSync(config)
  })

  it('[W12] writes nothing through links of the repository', async () => {
    await work()
    const outside = join(home, 'outside')
    mkdirSync(outside)
    const victim = join(outside, 'profile')
    writeFileSync(victim, 'mine\n')
    rmSync(join(project, '.git/logs/refs/heads/main'))
    symlinkSync(victim, join(project, '.git/logs/refs/heads/main'))
    await expect(server.client.commit(id, {})).rejects.toThrow()
    symlinkSync(outside, join(project, '.git/refs/heads/agent'))
    await expect(server.client.commit(id, { branch: 'agent/x' })).rejects.toThrow(
      /leads out of the repository/,
    )
    expect(readFileSync(victim, 'utf8')).toBe('mine\n')
    expect(git('log', '--format=%s').trim()).toBe('first')
    rmSync(join(project, '.git/logs/refs/heads/main'))
    await server.client.commit(id, {})
  })

  it('[W12] leaves out ignored files and other repositories, and keeps line endings as git wants them', async () => {
    put('.gitignore', 'ignored.txt\n')
    put('.gitattributes', '*.crlf text eol=crlf\n')
    mkdirSync(join(project, 'inner'))
    execFileSync('git', ['init', '-q'], { cwd: join(project, 'inner') })
    git('add', '.gitignore', '.gitattributes')
    git('commit', '-q', '-m', 'settings')
    const crlf = write('a.crlf', 'one\r\ntwo\r\n')
    await ask(server, id, [write('ignored.txt', 'x'), write('inner/x.txt', 'x'), crlf].join('\n'))
    await server.client.approve(id, {})
    const done = await server.client.commit(id, {})
    expect(done.files.map(({ path }) => path)).toEqual(['a.crlf'])
    expect(done.skipped.map(({ path }) => path).sort()).toEqual(['ignored.txt', 'inner/x.txt'])
    expect(git('show', 'HEAD:a.crlf')).toBe('one\ntwo\n')
    expect(git('status', '--porcelain', 'a.crlf')).toBe('')
  })

  it('[W12] refuses what would lose or mix up work, and says why', async () => {
    await expect(server.client.commit(id, {})).rejects.toThrow(/Nothing has been approved/)
    await work()
    put('new.txt', 'staged differently\n')
    git('add', 'new.txt')
    await expect(server.client.commit(id, {})).rejects.toThrow(/other staged changes: new.txt/)
    git('reset', '-q')
    writeFileSync(join(project, '.git/index.lock'), '')
    await expect(server.client.commit(id, {})).rejects.toThrow(/index.lock exists/)
    expect(git('log', '--format=%s').trim()).toBe('first')
    rmSync(join(project, '.git/index.lock'))
    writeFileSync(join(project, '.git/MERGE_HEAD'), git('rev-parse', 'HEAD'))
    await expect(server.client.commit(id, {})).rejects.toThrow(/in progress/)
    rmSync(join(project, '.git/MERGE_HEAD'))
    git('checkout', '-q', '--detach')
    await expect(server.client.commit(id, {})).rejects.toThrow(/on no branch/)
    git('checkout', '-q', 'main')
    writeFileSync(join(home, '.gitconfig'), '')
    await expect(server.client.commit(id, {})).rejects.toThrow(/user.email/)
    const fork = await server.client.fork(id, { files: 'copy' })
    await expect(server.client.commit(fork.id, {})).rejects.toThrow(/Adopt its files first/)
  })

  it('commits links and modes, in a repository above the project and in one without commits', async () => {
    const root = mkdtempSync(join(tmpdir(), 'waymark-commit-root-'))
    const below = join(root, 'packages/shop')
    mkdirSync(below, { recursive: true })
    execFileSync('git', ['init', '-q', '-b', 'main'], { cwd: root })
    const other = await startTestServer({ project: below })
    const { id: one } = await other.client.createConversation()
    await ask(other, one, write('a.txt', 'a\n'))
    symlinkSync('a.txt', join(below, 'link'))
    writeFileSync(join(below, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
    await other.client.approve(one, { message: 'All of it' })
    const done = await other.client.commit(one, {})
    await other.close()
    const listed = execFileSync('git', ['ls-tree', '-r', 'HEAD'], { cwd: root, encoding: 'utf8' })
    expect(listed.split('\n').map((line) => line.replace(/^(\d+) .*\t/, '$1 '))).toEqual([
      '100644 packages/shop/a.txt',
      '120000 packages/shop/link',
      '100755 packages/shop/run.sh',
      '',
    ])
    expect(done).toMatchObject({ parent: null, message: expect.stringMatching(/^All of it/) })
    rmSync(root, { recursive: true, force: true })
  })
})
