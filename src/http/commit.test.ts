import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
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
      'Ada Example <ada@example.org>\nBaskets\n\n- Fill the basket !write_to_file …\n- Remove the old !delete_file {"path":"old.txt"}\n\n\nM\tkept.txt\nA\tnew.txt\nD\told.txt',
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

  it("takes the author from the person's includes for this folder, not from those of the repository", async () => {
    await work()
    writeFileSync(join(home, 'work.inc'), '[user]\n\temail = "ada@work.example" # at work\n')
    writeFileSync(join(home, 'theirs.inc'), '[user]\n\tname = Mallory\n')
    appendFileSync(
      join(home, '.gitconfig'),
      `[includeIf "gitdir:${realpathSync(project)}/"]\n\tpath = ~/work.inc\n`,
    )
    appendFileSync(join(project, '.git/config'), `[include]\n\tpath = ${join(home, 'theirs.inc')}\n`)
    const { author } = await server.client.commit(id, { dry_run: true })
    expect(author).toBe('Ada Example <ada@work.example>')
  })

  it('commits what was approved before if the last approval has changed nothing', async () => {
    await work()
    await server.client.approve(id, {})
    await ask(server, id, 'a question')
    await server.client.approve(id, {})
    const { files, message } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt', 'old.txt'])
    expect(message).toContain('- Fill the basket')
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
    await expect(server.client.commit(id, { branch: 'agent/baskets' })).rejects.toThrow(/already exists/)
    for (const branch of ['-x', 'a..b', 'HEAD', '../../hooks/x', 'a b']) {
      await expect(server.client.commit(id, { branch })).rejects.toMatchObject({ code: 'commit_refused' })
    }
  })

  describe('with hooks', () => {
    const hook = (name: string, script: string) => {
      mkdirSync(join(project, '.git/hooks'), { recursive: true })
      writeFileSync(join(project, '.git/hooks', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    }

    it('[W12] shows them first, and runs them only on request, with exactly what is committed', async () => {
      await work()
      put('staged.txt', 'staged\n')
      git('add', 'staged.txt')
      hook('pre-commit', 'git diff --cached --name-only > seen.txt; pwd >> seen.txt; test -z "$SECRET"')
      hook('commit-msg', 'printf "\\nChange-Id: 7\\n" >> "$1"')
      hook('post-commit', 'git log -1 --format=%s > after.txt')
      const shown = await server.client.commit(id, { dry_run: true, run_hooks: true })
      expect(shown.hooks).toEqual([
        { name: 'pre-commit', path: '.git/hooks/pre-commit', has_run: false },
        { name: 'commit-msg', path: '.git/hooks/commit-msg', has_run: false },
        { name: 'post-commit', path: '.git/hooks/post-commit', has_run: false },
      ])
      expect(existsSync(join(project, 'seen.txt'))).toBe(false)
      const done = await server.client.commit(id, { message: 'Baskets', run_hooks: true })
      expect(done.hooks.every(({ has_run }) => has_run)).toBe(true)
      expect(readFileSync(join(project, 'seen.txt'), 'utf8')).toBe(
        `kept.txt\nnew.txt\nold.txt\n${realpathSync(project)}\n`,
      )
      expect(git('log', '-1', '--format=%B').trim()).toBe('Baskets\n\nChange-Id: 7')
      expect(done.message).toBe('Baskets\n\nChange-Id: 7')
      expect(readFileSync(join(project, 'after.txt'), 'utf8')).toBe('Baskets\n')
      expect(git('diff', '--cached', '--name-only')).toBe('staged.txt\n')
      expect(readdirSync(join(project, '.git')).filter((name) => name.includes('waymark'))).toEqual([])
    })

    it.each([
      [
        'fails',
        'pre-commit',
        'echo "no tabs, please" >&2; exit 3',
        /pre-commit exited with 3.*no tabs, please/s,
      ],
      [
        'adds files',
        'pre-commit',
        'echo x > extra.txt; git add extra.txt',
        /changed what would be committed/,
      ],
      ['removes the index', 'pre-commit', 'rm "$GIT_INDEX_FILE"', /index that can't be read/],
      ['empties the message', 'commit-msg', ': > "$1"', /message empty/],
      ['is killed', 'prepare-commit-msg', 'kill -9 $$', /was killed|exited with 137/],
    ])('[W12] commits nothing if a hook %s', async (_, name, script, why) => {
      await work()
      hook(name, script)
      const before = git('status', '--porcelain')
      await expect(server.client.commit(id, { run_hooks: true })).rejects.toThrow(why)
      expect(git('log', '--format=%s').trim()).toBe('first')
      expect(git('status', '--porcelain').replace('?? extra.txt\n', '')).toBe(before)
      await server.client.commit(id, {})
      expect(git('log', '-1', '--format=%s').trim()).toBe('Baskets')
    })

    it('[W12] writes their message to a new file, not through a link or into a pipe', async () => {
      await work()
      hook('pre-commit', 'exit 0')
      const message = join(project, '.git/COMMIT_EDITMSG')
      put('notes.txt', 'notes\n')
      rmSync(message, { force: true })
      linkSync(join(project, 'notes.txt'), message)
      await server.client.commit(id, { branch: 'one', run_hooks: true })
      rmSync(message)
      execFileSync('mkfifo', [message])
      await server.client.commit(id, { branch: 'two', run_hooks: true })
      expect(readFileSync(join(project, 'notes.txt'), 'utf8')).toBe('notes\n')
      rmSync(message)
      mkdirSync(message)
      await expect(server.client.commit(id, { run_hooks: true })).rejects.toMatchObject({
        code: 'commit_refused',
      })
    })

    it('[W12] saves the files before a hook can change them, and refuses while a run is active', async () => {
      await work()
      put('mine.txt', 'not saved anywhere\n')
      hook('pre-commit', 'echo formatted > mine.txt')
      const { run_id } = await server.client.sendMessage(id, { content: '!wait 20' })
      await expect.poll(async () => (await server.client.queue(id)).active?.run_id).toBe(run_id)
      await expect(server.client.commit(id, { run_hooks: true })).rejects.toMatchObject({
        code: 'workspace_busy',
      })
      await server.client.stop(id)
      await expect.poll(async () => (await server.client.queue(id)).active).toBeNull()
      put('mine.txt', 'saved by the checkpoint\n')
      await server.client.commit(id, { run_hooks: true })
      expect(readFileSync(join(project, 'mine.txt'), 'utf8')).toBe('formatted\n')
      const [saved] = (await server.client.checkpoints(id)).items
      expect(saved?.label).toBe('Before commit hooks')
      await server.client.restore(id, { checkpoint_id: saved?.checkpoint_id ?? '' })
      expect(readFileSync(join(project, 'mine.txt'), 'utf8')).toBe('saved by the checkpoint\n')
      await ask(server, id, 'goes on')
    })

    it('[W12] commits nothing if the branch is switched while hooks run', async () => {
      await work()
      hook('pre-commit', 'touch started; for n in $(seq 200); do test -e switched && exit 0; sleep 0.1; done')
      const committing = server.client.commit(id, { run_hooks: true })
      committing.catch(() => {})
      await expect.poll(() => existsSync(join(project, 'started')), { timeout: 10_000 }).toBe(true)
      git('checkout', '-q', '-b', 'feature')
      put('switched', '')
      await expect(committing).rejects.toThrow(/branch changed/)
      expect(git('log', '--format=%s', 'main').trim()).toBe('first')
      expect(git('diff', '--cached', '--name-only')).toBe('')
    })

    it('keeps the messages of two concurrent commits apart', async () => {
      await work()
      hook('pre-commit', 'sleep 0.5')
      const commit = (name: string) =>
        server.client.commit(id, { branch: name, message: name, run_hooks: true })
      await Promise.all([commit('one'), commit('two')])
      expect([git('log', '-1', '--format=%s', 'one'), git('log', '-1', '--format=%s', 'two')]).toEqual([
        'one\n',
        'two\n',
      ])
    })

    it('[W12] commits nothing if a hook plants a forged object', async () => {
      await work()
      const good = git('hash-object', 'new.txt').trim()
      put('evil.txt', 'evil\n')
      const evil = git('hash-object', '-w', 'evil.txt').trim()
      const fileOf = (oid: string) => `.git/objects/${oid.slice(0, 2)}/${oid.slice(2)}`
      hook(
        'pre-commit',
        `rm -f ${fileOf(good)}; mkdir -p .git/objects/${good.slice(0, 2)}; cp ${fileOf(evil)} ${fileOf(good)}`,
      )
      await expect(server.client.commit(id, { run_hooks: true })).rejects.toThrow(/is damaged/)
      expect(git('log', '--format=%s').trim()).toBe('first')
    })

    it('ignores hooks whose paths cannot be resolved', async () => {
      await work()
      hook('pre-commit', 'exit 0')
      symlinkSync('commit-msg', join(project, '.git/hooks/commit-msg'))
      expect((await server.client.commit(id, { dry_run: true })).hooks).toHaveLength(1)
      git('config', 'core.hooksPath', 'x'.repeat(300))
      expect((await server.client.commit(id, {})).hooks).toEqual([])
    })

    it('finds them where core.hooksPath says', async () => {
      await work()
      mkdirSync(join(project, '.husky'))
      writeFileSync(join(project, '.husky/pre-commit'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 })
      writeFileSync(join(project, '.husky/commit-msg'), '#!/bin/sh\nexit 1\n', { mode: 0o644 })
      git('config', 'core.hooksPath', '.husky')
      const { hooks } = await server.client.commit(id, { run_hooks: true })
      expect(hooks).toEqual([{ name: 'pre-commit', path: '.husky/pre-commit', has_run: true }])
      expect(existsSync(join(project, 'ran'))).toBe(true)
    })
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
    await expect(server.client.commit(id, { branch: 'agent/x' })).rejects.toThrow(/is outside the repository/)
    expect(readFileSync(victim, 'utf8')).toBe('mine\n')
    expect(git('log', '--format=%s').trim()).toBe('first')
    rmSync(join(project, '.git/logs/refs/heads/main'))
    await server.client.commit(id, {})
  })

  it('[W12] refuses links and pipes in place of the index, the branch, the log or the objects', async () => {
    await work()
    const inGit = (path: string) => join(project, '.git', path)
    const before = git('log', '--format=%H')
    async function refusedWith(path: string, replace: () => void): Promise<void> {
      renameSync(inGit(path), inGit('aside'))
      replace()
      await expect(server.client.commit(id, {}), path).rejects.toMatchObject({ code: 'commit_refused' })
      rmSync(inGit(path))
      renameSync(inGit('aside'), inGit(path))
    }
    await refusedWith('index', () => symlinkSync('aside', inGit('index')))
    await refusedWith('index', () => {
      writeFileSync(inGit('index'), '')
      truncateSync(inGit('index'), 200 * 1024 * 1024)
    })
    await refusedWith('refs/heads/main', () => symlinkSync('../../aside', inGit('refs/heads/main')))
    await refusedWith('logs/HEAD', () => execFileSync('mkfifo', [inGit('logs/HEAD')]))
    symlinkSync(home, inGit('objects/zz'))
    await expect(server.client.commit(id, {})).rejects.toThrow(/symbolic link/)
    rmSync(inGit('objects/zz'))
    expect(git('log', '--format=%H')).toBe(before)
    expect(existsSync(inGit('index.lock'))).toBe(false)
    await server.client.commit(id, {})
    expect(git('status', '--porcelain')).toBe('')
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

  it('[W12] refuses commits that would lose staged changes or mix with a merge, and says why', async () => {
    await expect(server.client.commit(id, {})).rejects.toThrow(/Nothing has been approved/)
    await work()
    put('new.txt', 'staged differently\n')
    git('add', 'new.txt')
    await expect(server.client.commit(id, {})).rejects.toThrow(/other staged changes or conflicts: new.txt/)
    git('reset', '-q')
    writeFileSync(join(project, '.git/index.lock'), '')
    await expect(server.client.commit(id, {})).rejects.toThrow(/index.lock exists/)
    expect(git('log', '--format=%s').trim()).toBe('first')
    rmSync(join(project, '.git/index.lock'))
    writeFileSync(join(project, '.git/MERGE_HEAD'), git('rev-parse', 'HEAD'))
    await expect(server.client.commit(id, {})).rejects.toThrow(/in progress/)
    rmSync(join(project, '.git/MERGE_HEAD'))
    writeFileSync(join(home, '.gitconfig'), '')
    await expect(server.client.commit(id, {})).rejects.toThrow(/user.email/)
    git('checkout', '-q', '--detach')
    await expect(server.client.commit(id, {})).rejects.toThrow(/HEAD is detached/)
    git('checkout', '-q', 'main')
    const fork = await server.client.fork(id, { files: 'copy' })
    await expect(server.client.commit(fork.id, {})).rejects.toThrow(/Adopt its files first/)
  })

  it('[W12] commits everything approved since the last commit, also after one that failed', async () => {
    await work()
    const preview = await server.client.commit(id, { dry_run: true, with_current: true })
    expect(preview.files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt', 'old.txt'])
    git('checkout', '-q', '--detach')
    await expect(server.client.commit(id, {})).rejects.toThrow(/HEAD is detached/)
    git('checkout', '-q', 'main')
    await ask(server, id, `More\n${write('more.txt', 'more\n')}`)
    const unapproved = await server.client.commit(id, { dry_run: true, with_current: true })
    expect(unapproved.files.map(({ path }) => path)).toEqual(['kept.txt', 'more.txt', 'new.txt', 'old.txt'])
    await server.client.approve(id, {})
    const done = await server.client.commit(id, {})
    expect(done.files).toEqual(unapproved.files)
    expect(done.message).toContain('- Fill the basket')
    git('rm', '-q', '--cached', 'more.txt')
    git('commit', '-q', '-m', 'not this one')
    await ask(server, id, `Again\n${write('kept.txt', 'kept again\n')}`)
    await server.client.approve(id, {})
    expect((await server.client.commit(id, {})).files).toEqual([{ path: 'kept.txt', change: 'modified' }])
    const { items } = await server.client.audit({})
    expect(items.map(({ action }) => action)).toEqual(['files.committed', 'files.committed'])
  })

  it('shows before the first approval what it would commit', async () => {
    await ask(server, id, write('new.txt', 'new\n'))
    const { files } = await server.client.commit(id, { dry_run: true, with_current: true })
    expect(files).toEqual([{ path: 'new.txt', change: 'added' }])
    await expect(server.client.commit(id, { with_current: true })).rejects.toThrow(
      /with_current needs dry_run/,
    )
  })

  it('[W12] deletes no file because checkpoints leave it out', async () => {
    put('.gitignore', 'notes.txt\n')
    put('notes.txt', 'tracked, and ignored later\n')
    git('add', '-f', '.')
    rmSync(join(project, '.gitignore'))
    git('commit', '-q', '-m', 'notes')
    await ask(server, id, write('one.txt', 'one\n'))
    await server.client.approve(id, {})
    put('.gitignore', 'notes.txt\n')
    await ask(server, id, write('two.txt', 'two\n'))
    await server.client.approve(id, {})
    const { files, skipped } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(
      ['.gitignore', 'one.txt', 'two.txt'].filter((path) => path !== '.gitignore'),
    )
    expect(skipped).toMatchObject([{ path: 'notes.txt', reason: /leave it out/ }])
    expect(git('ls-files')).toContain('notes.txt')
  })

  it('[W12] deletes no file because checkpoints leave out its folder', async () => {
    mkdirSync(join(project, 'gen'))
    put('gen/a.ts', 'tracked\n')
    git('add', '.')
    git('commit', '-q', '-m', 'generated')
    await ask(server, id, write('one.txt', 'one\n'))
    await server.client.approve(id, {})
    put('.gitignore', 'gen/\n')
    await ask(server, id, write('two.txt', 'two\n'))
    const { changed_files } = await server.client.session(id)
    expect(changed_files.find(({ path }) => path === 'gen/a.ts')).toMatchObject({ left_out: 'gitignore' })
    await server.client.approve(id, {})
    const { files, skipped } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(['one.txt', 'two.txt'])
    expect(skipped).toMatchObject([{ path: 'gen/a.ts', reason: /leave it out/ }])
    expect(git('ls-files')).toContain('gen/a.ts')
  })

  it('[W12] refuses to commit to another branch what was approved on this one', async () => {
    git('checkout', '-q', '-b', 'feature')
    for (const name of ['f1.txt', 'f2.txt']) put(name, 'of the feature\n')
    git('add', '.')
    git('commit', '-q', '-m', 'feature')
    // Git's times have no milliseconds.
    const nextSecond = async () =>
      await expect.poll(() => Date.now() % 1000 < 100, { interval: 10 }).toBe(true)
    await nextSecond()
    await work()
    git('stash', '-q', '--include-untracked')
    await nextSecond()
    git('checkout', '-q', 'main')
    await expect(server.client.commit(id, {})).rejects.toThrow(/branch was switched after the approval/)
    expect(git('log', '--format=%s').trim()).toBe('first')
    git('checkout', '-q', 'feature')
    git('stash', 'pop', '-q')
    expect((await server.client.commit(id, {})).files.map(({ path }) => path)).toEqual([
      'kept.txt',
      'new.txt',
      'old.txt',
    ])
  })

  it('[W12] keeps CRLF where the last commit has it, as git add does', async () => {
    put('windows.txt', 'one\r\ntwo\r\n')
    git('add', '.')
    git('commit', '-q', '-m', 'CRLF')
    git('config', 'core.autocrlf', 'true')
    await server.client.approve(id, {})
    const changed = { path: 'windows.txt', content: 'one\r\ntwo\r\nthree\r\n' }
    await ask(server, id, `!write_to_file ${JSON.stringify(changed)}`)
    await ask(server, id, write('new.txt', 'new\r\n'))
    await server.client.approve(id, {})
    await server.client.commit(id, {})
    expect(git('show', 'HEAD:windows.txt')).toBe('one\r\ntwo\r\nthree\r\n')
    expect(git('show', 'HEAD:new.txt')).toBe('new\n')
    expect(git('status', '--porcelain')).toBe('')
  })

  it('[W12] skips a file whose name is not UTF-8, instead of committing another name', async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${project}/caf`), Buffer.from([0xe9])]), 'x\n')
    await work()
    const { files, skipped } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt', 'old.txt'])
    expect(skipped).toMatchObject([{ reason: /unusual bytes/ }])
  })

  it('[W12] commits again what a reset has taken from the branch', async () => {
    await work()
    const { files } = await server.client.commit(id, {})
    git('reset', '-q', '--hard', 'HEAD~1')
    await server.client.restore(id, {
      checkpoint_id: (await server.client.session(id)).approved_checkpoint,
    })
    await ask(server, id, write('later.txt', 'later\n'))
    await server.client.approve(id, {})
    expect((await server.client.commit(id, {})).files).toEqual(
      [...files, { path: 'later.txt', change: 'added' }].sort((a, b) => (a.path < b.path ? -1 : 1)),
    )
  })

  it('[W12] commits changes although the system shows every file as executable', async () => {
    git('config', 'core.fileMode', 'no')
    for (const name of ['kept.txt', 'old.txt']) chmodSync(join(project, name), 0o755)
    await work()
    put('theirs.txt', 'x\n')
    git('add', 'theirs.txt')
    git('commit', '-q', '-m', 'another')
    const { skipped, files } = await server.client.commit(id, {})
    expect(skipped).toEqual([])
    expect(files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt', 'old.txt'])
    expect(git('ls-tree', 'HEAD', 'kept.txt')).toMatch(/^100644/)
  })

  it('[W12] does not hide a change that was made in the same second as the last one of the index', async () => {
    await work()
    put('racy.txt', 'aaaa')
    git('add', 'racy.txt')
    git('commit', '-q', '-m', 'racy')
    put('racy.txt', 'bbbb')
    await server.client.commit(id, {})
    expect(git('status', '--porcelain')).toContain(' M racy.txt')
  })

  it('[W12] neither replaces a folder by a file nor a file by a folder', async () => {
    await work()
    await ask(server, id, [write('thing', 'a file\n'), write('place/file.txt', 'in a folder\n')].join('\n'))
    await server.client.approve(id, {})
    for (const path of ['thing', 'place']) rmSync(join(project, path), { recursive: true })
    mkdirSync(join(project, 'thing'))
    put('thing/inside.txt', 'inside\n')
    put('place', 'a file\n')
    git('add', 'place')
    git('commit', '-q', '-m', 'the other way around')
    git('add', 'thing')
    await expect(server.client.commit(id, {})).rejects.toThrow(/other staged changes or conflicts: thing/)
    git('commit', '-q', '-m', 'a folder')
    const { files, skipped } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt', 'old.txt'])
    expect(skipped.map(({ path }) => path)).toEqual(['place/file.txt', 'thing'])
    expect(git('ls-tree', '-r', '--name-only', 'HEAD').split('\n')).toEqual(
      expect.arrayContaining(['thing/inside.txt', 'place']),
    )
  })

  it('[W12] does not bring back what was deleted after the approval, nor resolve conflicts', async () => {
    await work()
    git('rm', '-q', '-f', 'kept.txt')
    git('commit', '-q', '-m', 'not needed', '--date', '2001-01-01T00:00:00')
    const { skipped } = await server.client.commit(id, { dry_run: true })
    expect(skipped.map(({ path }) => path)).toEqual(['kept.txt'])
    const oid = git('hash-object', '-w', 'new.txt').trim()
    execFileSync('git', ['update-index', '--index-info'], {
      cwd: project,
      input: `100644 ${oid} 2\tnew.txt\n100644 ${oid} 3\tnew.txt\n`,
    })
    await expect(server.client.commit(id, {})).rejects.toThrow(/conflicts: new.txt/)
  })

  it('[W12] skips files that attributes outside the project give a filter, and keeps modes where the system has none', async () => {
    mkdirSync(join(home, '.config/git'), { recursive: true })
    writeFileSync(join(home, '.config/git/attributes'), 'kept.txt filter=person\n')
    writeFileSync(join(project, '.git/info/attributes'), 'new.txt filter=repository\n')
    git('config', 'core.fileMode', 'false')
    await work()
    await ask(server, id, write('plain.txt', 'plain\n'))
    chmodSync(join(project, 'plain.txt'), 0o755)
    await server.client.approve(id, {})
    const { files, skipped } = await server.client.commit(id, {})
    expect(files.map(({ path }) => path)).toEqual(['old.txt', 'plain.txt'])
    expect(skipped.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt'])
    expect(git('ls-tree', 'HEAD', 'plain.txt')).toMatch(/^100644 /)
  })

  it('[W12] commits to a shallow clone', async () => {
    await work()
    const head = git('rev-parse', 'HEAD').trim()
    git('commit', '-q', '--allow-empty', '-m', 'second')
    writeFileSync(join(project, '.git/shallow'), git('rev-parse', 'HEAD'))
    rmSync(join(project, '.git/objects', head.slice(0, 2), head.slice(2)), { force: true })
    expect((await server.client.commit(id, {})).commit).toHaveLength(40)
  })

  it('commits to a repository with SHA-256 names', async () => {
    rmSync(join(project, '.git'), { recursive: true })
    git('init', '-q', '-b', 'main', '--object-format=sha256')
    git('add', '.')
    git('commit', '-q', '-m', 'first')
    await work()
    expect((await server.client.commit(id, {})).commit).toHaveLength(64)
    expect(git('show', '--format=', '--name-status', 'HEAD').trim()).toBe(
      'M\tkept.txt\nA\tnew.txt\nD\told.txt',
    )
    expect(git('status', '--porcelain')).toBe('')
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
