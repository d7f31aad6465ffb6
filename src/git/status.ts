import { lstatSync, realpathSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { GitFailed, runGit } from './git.ts'
import {
  findRepository,
  headCommit,
  plainSettings,
  readSmall,
  type UserRepository,
} from './user-repository.ts'

/**
 * Finds the files that the user's git would report as changed. Git compares the files with a copy of the index, in a git
 * directory created for this one call: it sees the user's objects, index and excludes, but never the repository's settings.
 */

const TIMEOUT_MS = 5000
const MAX_OUTPUT = 4 * 1024 * 1024
/** Enough for the paths of half a million files. */
const MAX_LIST = 32 * 1024 * 1024
const MAX_INDEX_BYTES = 128 * 1024 * 1024
const MAX_EXCLUDE_BYTES = 1024 * 1024

export interface StatusOptions {
  /** Search path for `git`. */
  path: string
  /** A folder for the call's temporary git directory. */
  scratch: string
}

export interface ChangedFile {
  /** Relative to `root`. */
  path: string
  isDeleted: boolean
}

/** Files that differ from the last commit, and untracked files that aren't ignored. Empty if that can't be determined. */
export async function changedFiles(root: string, settings: StatusOptions): Promise<ChangedFile[]> {
  return await withMirror<ChangedFile[]>(
    root,
    settings,
    { none: [], unknown: [] },
    async (repository, run) => {
      const prefix = prefixOf(repository, root)
      const only = prefix === '' ? [] : ['--', prefix]
      const options = ['--porcelain=v1', '-z', '--untracked-files=all', '--ignore-submodules=all']
      const status = await run('status', ...options, ...only)
      return status.split('\0').flatMap((entry) => {
        const [state, file] = [entry.slice(0, 2), entry.slice(3)]
        // A path that ends with a slash is a nested repository.
        if (entry === '' || file.endsWith('/') || !file.startsWith(prefix)) return []
        return { path: file.slice(prefix.length), isDeleted: state.includes('D') }
      })
    },
  )
}

/** Tracked files of the project's repository whose path has a hidden part. Null if that can't be determined. */
export async function hiddenTrackedFiles(root: string, settings: StatusOptions): Promise<string[] | null> {
  const options = { ...settings, maxOutput: MAX_LIST }
  return await withMirror<string[] | null>(
    root,
    options,
    { none: [], unknown: null },
    async (repository, run) => {
      const prefix = prefixOf(repository, root)
      const listed = await run('ls-files', '-z')
      return listed
        .split('\0')
        .filter((file) => file !== '' && file.startsWith(prefix))
        .map((file) => file.slice(prefix.length))
        .filter((file) => file.split('/').some((part) => part.startsWith('.')))
    },
  )
}

/** True if the project's repository tracks anything at or below this folder, so that a pull can change it. */
export async function isTracked(root: string, folder: string, options: StatusOptions): Promise<boolean> {
  // If it can't be determined, assume that the folder is tracked.
  return await withMirror(root, options, { none: false, unknown: true }, async ({ workTree }, run) => {
    const path = relative(workTree, realpathSync(folder))
    return (await run('ls-files', '-z', '--full-name', '--', path)) !== ''
  })
}

type Run = (...args: string[]) => Promise<string>

async function withMirror<T>(
  root: string,
  { path, scratch, maxOutput = MAX_OUTPUT }: StatusOptions & { maxOutput?: number },
  otherwise: { none: T; unknown: T },
  use: (repository: UserRepository, run: Run) => Promise<T>,
): Promise<T> {
  const repository = await findRepository(root)
  if (!repository) return hasDotGit(root) ? otherwise.unknown : otherwise.none
  await mkdir(scratch, { recursive: true })
  const gitDir = await mkdtemp(join(scratch, 'status-'))
  try {
    if (!(await fillMirror(gitDir, repository))) return otherwise.unknown
    const objects = join(repository.commonDir, 'objects')
    const limits = { timeoutMs: TIMEOUT_MS, maxOutput }
    const { workTree } = repository
    return await use(repository, async (...args) =>
      (await runGit({ gitDir, args, path, cwd: workTree, objects, workTree, ...limits })).toString(),
    )
  } catch (error) {
    // The repository is damaged, or git took too long.
    if (error instanceof GitFailed) return otherwise.unknown
    throw error
  } finally {
    await rm(gitDir, { recursive: true, force: true })
  }
}

/** True if the folder has a `.git` at all: one that isn't a usable repository leaves the status unknown. */
function hasDotGit(root: string): boolean {
  return lstatSync(join(root, '.git'), { throwIfNoEntry: false }) !== undefined
}

/** Fills a git directory of ours with what it needs to know of the user's. False if that can't be read. */
export async function fillMirror(gitDir: string, repository: UserRepository): Promise<boolean> {
  const head = await headCommit(repository)
  const indexFile = join(repository.gitDir, 'index')
  // Read the time before the content: if the index changes in between, git only compares more files than necessary.
  const changed = lstatSync(indexFile, { throwIfNoEntry: false })?.mtime
  const index = await readSmall(indexFile, MAX_INDEX_BYTES)
  if (head === undefined) return false
  const format = head?.length === 64 ? '[extensions]\n\tobjectformat = sha256\n' : ''
  await mkdir(join(gitDir, 'refs'))
  await mkdir(join(gitDir, 'info'))
  await writeFile(join(gitDir, 'HEAD'), head === null ? 'ref: refs/heads/none\n' : `${head}\n`)
  await writeFile(
    join(gitDir, 'config'),
    `[core]\n\trepositoryformatversion = ${format ? 1 : 0}\n${userSettings(repository)}${format}`,
  )
  await writeFile(join(gitDir, 'info', 'exclude'), await excludes(repository))
  await writeFile(join(gitDir, 'info', 'attributes'), await attributes(repository))
  if (index && changed) {
    await writeFile(join(gitDir, 'index'), index)
    // Git compares the content of files that changed in the same second as the index or later, so a copy must not be newer.
    const seconds = Math.floor(changed.getTime() / 1000)
    await utimes(join(gitDir, 'index'), seconds, seconds)
    await copySharedIndex(repository.gitDir, gitDir, index)
  }
  return true
}

/** The attributes outside the project's files: the person's, which count less, then the repository's. */
async function attributes({ commonDir }: UserRepository): Promise<Buffer> {
  const home = homedir()
  const named = plainSettings(join(home, '.gitconfig')).get('core.attributesfile')
  const personal = named?.replace(/^~\//, `${home}/`) ?? join(home, '.config', 'git', 'attributes')
  const texts = [
    (await readSmall(personal, MAX_EXCLUDE_BYTES)) ?? '',
    '\n',
    (await readSmall(join(commonDir, 'info', 'attributes'), MAX_EXCLUDE_BYTES)) ?? '',
  ]
  return Buffer.concat(texts.map((text) => Buffer.from(text)))
}

/** A split index has a part of its entries in a shared file, which it names. */
async function copySharedIndex(from: string, to: string, index: Buffer): Promise<void> {
  const names = await readdir(from)
  const isNamed = (name: string) => index.includes(Buffer.from(name.slice('sharedindex.'.length), 'hex'))
  for (const name of names.filter(
    (one) => /^sharedindex\.([0-9a-f]{40}|[0-9a-f]{64})$/.test(one) && isNamed(one),
  )) {
    const bytes = await readSmall(join(from, name), MAX_INDEX_BYTES)
    if (bytes) await writeFile(join(to, name), bytes)
  }
}

/** The repository's excludes together with the person's. */
async function excludes({ commonDir }: UserRepository): Promise<Buffer> {
  const home = homedir()
  const named = plainSettings(join(home, '.gitconfig')).get('core.excludesfile')
  const personal = named?.replace(/^~\//, `${home}/`) ?? join(home, '.config', 'git', 'ignore')
  const files = [join(commonDir, 'info', 'exclude'), personal]
  const texts = await Promise.all(files.map((file) => readSmall(file, MAX_EXCLUDE_BYTES)))
  return Buffer.concat(texts.flatMap((bytes) => [bytes ?? Buffer.alloc(0), Buffer.from('\n')]))
}

/** How lines end, the only settings of the person and the repository that affect which files count as changed. */
function userSettings({ commonDir }: UserRepository): string {
  const files = [join(homedir(), '.gitconfig'), join(commonDir, 'config')].map(plainSettings)
  const value = (key: string) => files.map((one) => one.get(key)).findLast(Boolean)
  const [autocrlf = '', eol = ''] = [value('core.autocrlf'), value('core.eol')]
  return [
    /^(true|false|input)$/.test(autocrlf) ? `\tautocrlf = ${autocrlf}\n` : '',
    /^(lf|crlf|native)$/.test(eol) ? `\teol = ${eol}\n` : '',
  ].join('')
}

/** The project's folder in the repository, with a slash at its end; empty for the root. */
export function prefixOf({ workTree }: UserRepository, root: string): string {
  const below = relative(workTree, realpathSync(root)).split(sep).join('/')
  return below === '' ? '' : `${below}/`
}
