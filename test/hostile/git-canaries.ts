import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A program that leaves a mark whenever it is run. */
export interface Canary {
  /** A command line that leaves the mark `name`. */
  command(name: string): string
  /** The marks left so far. */
  marks(): string[]
}

export function createCanary(folder: string): Canary {
  const marks = join(folder, 'marks')
  const program = join(folder, 'canary')
  mkdirSync(marks, { recursive: true })
  writeFileSync(program, `#!/bin/sh\n: > "${marks}/$1"\ncat >/dev/null 2>&1\nexit 0\n`)
  chmodSync(program, 0o755)
  return { command: (name) => `${program} ${name}`, marks: () => readdirSync(marks).sort() }
}

/** Every setting through which git 2.39 and later runs a program. */
export const executingSettings: readonly [string, string][] = [
  ['core.fsmonitor', 'fsmonitor'],
  ['core.sshCommand', 'ssh'],
  ['core.pager', 'pager'],
  ['core.editor', 'editor'],
  ['core.askPass', 'askpass'],
  ['core.gitProxy', 'proxy'],
  ['core.alternateRefsCommand', 'alternate-refs'],
  ['credential.helper', 'credential'],
  ['diff.external', 'external-diff'],
  ['diff.c.command', 'diff-driver'],
  ['diff.c.textconv', 'textconv'],
  ['filter.c.clean', 'clean'],
  ['filter.c.smudge', 'smudge'],
  ['filter.c.process', 'process'],
  ['merge.c.driver', 'merge'],
  ['gpg.program', 'gpg'],
  ['sequence.editor', 'sequence'],
  ['uploadpack.packObjectsHook', 'pack-objects'],
  ['pager.status', 'pager-status'],
  ['pager.log', 'pager-log'],
  ['pager.diff-tree', 'pager-diff-tree'],
  ['alias.status', 'alias'],
  ['alias.cat-file', 'alias-cat-file'],
  ['interactive.diffFilter', 'diff-filter'],
  ['trailer.x.command', 'trailer'],
  ['submodule.sub.update', 'submodule-update'],
]

export const hooks = [
  'post-index-change',
  'pre-commit',
  'post-checkout',
  'reference-transaction',
  'pre-auto-gc',
  'fsmonitor-watchman',
]

/** A git configuration that runs the canary in every known way. */
export function hostileConfig(canary: Canary, extra = ''): string {
  const lines = executingSettings.map(([name, mark]) => {
    const at = name.lastIndexOf('.')
    const [section = '', ...sub] = name.slice(0, at).split('.')
    const head = sub.length > 0 ? `[${section} "${sub.join('.')}"]` : `[${section}]`
    const value = `${name.startsWith('alias.') || name.endsWith('.update') ? '!' : ''}${canary.command(mark)}`
    return `${head}\n\t${name.slice(at + 1)} = ${JSON.stringify(value)}\n`
  })
  return [
    '[core]\n\trepositoryformatversion = 1\n\tbare = false\n',
    '[extensions]\n\tpartialClone = evil\n\tworktreeConfig = true\n',
    `[remote "evil"]\n\turl = ssh://evil/x\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\tuploadpack = ${JSON.stringify(canary.command('uploadpack'))}\n`,
    `[remote "ext"]\n\turl = ext::${canary.command('remote-ext')}\n\tpromisor = true\n`,
    '[log]\n\tshowSignature = true\n[status]\n\tsubmoduleSummary = true\n[diff]\n\tsubmodule = log\n',
    extra,
    ...lines,
  ].join('')
}

export function plantHooks(folder: string, canary: Canary): void {
  mkdirSync(folder, { recursive: true })
  for (const hook of hooks) {
    writeFileSync(join(folder, hook), `#!/bin/sh\n${canary.command(`hook-${hook}`)} </dev/null\n`)
    chmodSync(join(folder, hook), 0o755)
  }
}

/** Plants a git directory of ordinary files, as a model could write with `write_to_file` alone. */
export function plantGitDir(folder: string, canary: Canary, extra = ''): void {
  for (const name of ['refs/heads', 'objects/info', 'objects/pack', 'info']) {
    mkdirSync(join(folder, name), { recursive: true })
  }
  writeFileSync(join(folder, 'HEAD'), 'ref: refs/heads/main\n')
  writeFileSync(join(folder, 'config'), hostileConfig(canary, extra))
  writeFileSync(join(folder, 'config.worktree'), hostileConfig(canary))
  writeFileSync(join(folder, 'info/attributes'), '* filter=c diff=c merge=c\n')
  plantHooks(join(folder, 'hooks'), canary)
}

/** Creates a real repository with one commit and a harmless configuration. */
export function makeRepository(folder: string): void {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' },
      stdio: 'ignore',
    })
  git('init', '-q', '-b', 'main')
  git('add', '-A')
  git('commit', '-q', '-m', 'first', '--allow-empty')
}
