import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { isInside } from './paths.ts'

/**
 * Commands must not change what git executes in a workspace. Mounts guard the files that exist; files that mounts can't
 * prevent from being created are checked after the command.
 */
export interface RepositoryGuard {
  path: string
  isWritable: boolean
}

/** The workspace can't be confined in its current state; the message gives the reason. */
export class NotConfinable extends Error {}

const MAX_BYTES = 1024 * 1024
const GUARDED = ['config', 'hooks', 'config.worktree', 'modules', 'worktrees', 'info']

/** The paths that need their own mount, outer folders first. */
export function repositoryGuards(workspace: string): RepositoryGuard[] {
  const dotGit = join(workspace, '.git')
  const found = lstatSync(dotGit, { throwIfNoEntry: false })
  if (!found) return []
  if (found.isDirectory()) return guardsOf(dotGit)
  if (!found.isFile()) throw new NotConfinable('.git is a symbolic link or a special file')
  const target = /^gitdir: (.+?)\s*$/.exec(readSmall(dotGit) ?? '')?.[1]
  const gitDir = target === undefined ? null : resolve(workspace, target)
  const isHere = gitDir !== null && gitDir !== workspace && isInside(workspace, gitDir)
  return [{ path: dotGit, isWritable: false }, ...(isHere ? hereGuards(workspace, gitDir) : [])]
}

/** A git directory inside the workspace but outside `.git`, as in some worktree setups. */
function hereGuards(workspace: string, gitDir: string): RepositoryGuard[] {
  for (let at = gitDir; at !== workspace; at = dirname(at)) {
    const found = lstatSync(at, { throwIfNoEntry: false })
    if (!found) return []
    if (!found.isDirectory()) throw new NotConfinable('a symbolic link leads to the git directory')
  }
  return [{ path: gitDir, isWritable: false }]
}

function guardsOf(gitDir: string): RepositoryGuard[] {
  const kinds = new Map(GUARDED.map((name) => [name, kindOf(join(gitDir, name))]))
  const text = kinds.get('config') === 'file' ? readSmall(join(gitDir, 'config')) : null
  const isUsual =
    text !== null &&
    kinds.get('hooks') === 'folder' &&
    // This setting makes git read another file, which may not exist yet.
    (kinds.get('config.worktree') === 'file' || !/worktreeconfig/i.test(text)) &&
    ![...kinds.values()].includes('other')
  // Guard the whole directory if a part is missing or unusual, because a mount can't prevent its creation.
  if (!isUsual) return [{ path: gitDir, isWritable: false }]
  const parts = [...kinds].flatMap(([name, kind]) => (kind === 'none' ? [] : [join(gitDir, name)]))
  return [{ path: gitDir, isWritable: true }, ...parts.map((path) => ({ path, isWritable: false }))]
}

function kindOf(path: string): 'none' | 'file' | 'folder' | 'other' {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return 'none'
  return found.isFile() ? 'file' : found.isDirectory() ? 'folder' : 'other'
}

/** Inspects the repository before a command; the returned function repairs it afterwards and describes what it found. */
export function watchRepository(workspace: string): () => string {
  const dotGit = join(workspace, '.git')
  mendRedirection(dotGit)
  const before = kindOf(dotGit)
  const head = before === 'folder' ? readSmall(join(dotGit, 'HEAD')) : null
  return () => {
    const notes = [mendRedirection(dotGit), mendHead(dotGit, head)]
    if (before === 'none' && kindOf(dotGit) !== 'none') {
      notes.push('It created a Git repository: check .git/config before you run git here.')
    }
    return notes
      .filter(Boolean)
      .map((note) => ` ${note}`)
      .join('')
  }
}

/** Removes `commondir`, which makes git read its settings from elsewhere. Git itself never puts one in a main repository. */
export function mendRedirection(dotGit: string): string {
  const file = join(dotGit, 'commondir')
  if (kindOf(dotGit) !== 'folder' || kindOf(file) === 'none') return ''
  try {
    rmSync(file, { recursive: true, force: true })
    return 'Removed .git/commondir, which would have changed what git executes.'
  } catch (error) {
    return `.git/commondir changes what git executes and could not be removed (${(error as Error).message}).`
  }
}

/** Restores HEAD: without it git would use a folder above, or an ordinary folder, as the repository. */
function mendHead(dotGit: string, head: string | null): string {
  if (head === null || kindOf(dotGit) !== 'folder' || kindOf(join(dotGit, 'HEAD')) === 'file') return ''
  try {
    rmSync(join(dotGit, 'HEAD'), { recursive: true, force: true })
    writeFileSync(join(dotGit, 'HEAD'), head)
    return 'Restored .git/HEAD, which was missing.'
  } catch (error) {
    return `.git/HEAD is missing and could not be restored (${(error as Error).message}).`
  }
}

/** A regular file's text, or null: a pipe in its place would block the server. */
function readSmall(path: string): string | null {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const found = fstatSync(fd)
      return found.isFile() && found.size <= MAX_BYTES ? readFileSync(fd, 'utf8') : null
    } finally {
      closeSync(fd)
    }
  } catch {
    return null
  }
}
