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
 * What git executes in a workspace stays as it is while a command runs there. Mounts guard the files that exist; what
 * they can't keep from being made is looked for when the command has ended.
 */
export interface RepositoryGuard {
  path: string
  isWritable: boolean
}

/** The workspace can't be confined as it is; says why. */
export class NotConfinable extends Error {}

const MAX_BYTES = 1024 * 1024
const GUARDED = ['config', 'hooks', 'config.worktree', 'modules', 'worktrees', 'info']

/** What has to be a mount of its own, outer folders first. */
export function repositoryGuards(workspace: string): RepositoryGuard[] {
  const dotGit = join(workspace, '.git')
  const found = lstatSync(dotGit, { throwIfNoEntry: false })
  if (!found) return []
  if (found.isDirectory()) return guardsOf(dotGit)
  if (!found.isFile()) throw new NotConfinable('.git is a link or a special file')
  const target = /^gitdir: (.+?)\s*$/.exec(readSmall(dotGit) ?? '')?.[1]
  const gitDir = target === undefined ? null : resolve(workspace, target)
  const isHere = gitDir !== null && gitDir !== workspace && isInside(workspace, gitDir)
  return [{ path: dotGit, isWritable: false }, ...(isHere ? hereGuards(workspace, gitDir) : [])]
}

/** A repository beside its files, as some keep their worktrees. */
function hereGuards(workspace: string, gitDir: string): RepositoryGuard[] {
  for (let at = gitDir; at !== workspace; at = dirname(at)) {
    const found = lstatSync(at, { throwIfNoEntry: false })
    if (!found) return []
    if (!found.isDirectory()) throw new NotConfinable('.git leads through a link')
  }
  return [{ path: gitDir, isWritable: false }]
}

function guardsOf(gitDir: string): RepositoryGuard[] {
  const kinds = new Map(GUARDED.map((name) => [name, kindOf(join(gitDir, name))]))
  const text = kinds.get('config') === 'file' ? readSmall(join(gitDir, 'config')) : null
  const isUsual =
    text !== null &&
    kinds.get('hooks') === 'folder' &&
    // A setting that makes git read another file, which may not exist yet.
    (kinds.get('config.worktree') === 'file' || !/worktreeconfig/i.test(text)) &&
    ![...kinds.values()].includes('other')
  // All of it, where a part is missing or unusual: it can't be kept from being made.
  if (!isUsual) return [{ path: gitDir, isWritable: false }]
  const parts = [...kinds].flatMap(([name, kind]) => (kind === 'none' ? [] : [join(gitDir, name)]))
  return [{ path: gitDir, isWritable: true }, ...parts.map((path) => ({ path, isWritable: false }))]
}

function kindOf(path: string): 'none' | 'file' | 'folder' | 'other' {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return 'none'
  return found.isFile() ? 'file' : found.isDirectory() ? 'folder' : 'other'
}

/** Looks at the repository before a command; the returned function mends it afterwards and says what it found. */
export function watchRepository(workspace: string): () => string {
  const dotGit = join(workspace, '.git')
  mendRedirection(dotGit)
  const before = kindOf(dotGit)
  const head = before === 'folder' ? readSmall(join(dotGit, 'HEAD')) : null
  return () => {
    const notes = [mendRedirection(dotGit), mendHead(dotGit, head)]
    if (before === 'none' && kindOf(dotGit) !== 'none') {
      notes.push('It made a repository: look at .git/config before you run git here.')
    }
    return notes
      .filter(Boolean)
      .map((note) => ` ${note}`)
      .join('')
  }
}

/** A file that makes git take its settings from elsewhere; no git leaves one in a repository's own directory. */
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

/** Without it git takes the folder above, or an ordinary one, for the repository. */
function mendHead(dotGit: string, head: string | null): string {
  if (head === null || kindOf(dotGit) !== 'folder' || kindOf(join(dotGit, 'HEAD')) === 'file') return ''
  try {
    rmSync(join(dotGit, 'HEAD'), { recursive: true, force: true })
    writeFileSync(join(dotGit, 'HEAD'), head)
    return 'Restored .git/HEAD, which was gone.'
  } catch (error) {
    return `.git/HEAD is gone and could not be restored (${(error as Error).message}).`
  }
}

/** A regular file's text, or null: a pipe in its place would keep us waiting. */
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
