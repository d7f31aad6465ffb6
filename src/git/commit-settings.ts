import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { GitFailed, runGit } from './git.ts'
import type { UserRepository } from './user-repository.ts'

/**
 * The settings that a commit uses, by git's name for them. Git reads the person's files with their includes, which often choose
 * the author by folder, and then the repository's file without, because its includes could name any file.
 */

const WANTED = String.raw`^((user|author)\.(name|email)|core\.(hookspath|filemode))$`
const TIMEOUT_MS = 5000
const MAX_OUTPUT = 256 * 1024

export async function commitSettings(
  { gitDir, commonDir }: UserRepository,
  path: string,
): Promise<Map<string, string>> {
  const home = homedir()
  const own = join(commonDir, 'config')
  const files = [
    { file: '/etc/gitconfig', how: '--includes' },
    { file: join(home, '.config/git/config'), how: '--includes' },
    { file: join(home, '.gitconfig'), how: '--includes' },
    { file: own, how: '--no-includes' },
  ]
  const found = new Map<string, string>()
  for (const { file, how } of files) {
    // A pipe would block git. Git also reads the repository's own file, to evaluate conditional includes.
    if (!isFile(file)) continue
    const args = ['config', '--file', file, how, '--null', '--get-regexp', WANTED]
    const limits = { timeoutMs: TIMEOUT_MS, maxOutput: MAX_OUTPUT }
    const call = { gitDir: isFile(own) ? gitDir : home, args, path, home, cwd: home, ...limits }
    for (const entry of (await runGit(call).catch(noneFound)).toString().split('\0')) {
      const [, name, value] = /^([^\n]+)\n(.*)$/s.exec(entry) ?? []
      if (name !== undefined && value !== undefined) found.set(name, value)
    }
  }
  return found
}

/** Git exits with 1 when no setting matches. */
function noneFound(error: unknown): string {
  if (!(error instanceof GitFailed) || error.code !== 1) throw error
  return ''
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true
}
