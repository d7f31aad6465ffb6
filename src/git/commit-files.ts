import { constants, existsSync, lstatSync, realpathSync } from 'node:fs'
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, sep } from 'node:path'
import { GitFailed, runGit } from './git.ts'
import { fillMirror, prefixOf } from './status.ts'
import {
  findRepository,
  headCommit,
  plainSettings,
  readSmall,
  type UserRepository,
} from './user-repository.ts'

/**
 * The only write to the user's repository: a commit of given files, on request. Git works in a directory of ours and adds
 * objects to the repository; the branch and the index are then replaced as git does it, under its lock files. Nothing of the
 * repository's configuration is used except the author and the line endings: no hook, no filter and no program runs.
 */

export interface FileToCommit {
  /** Relative to the project. */
  path: string
  /** Git's mode; null for a file that is deleted. */
  mode: string | null
  body: Buffer
  /** The file in the approval before; null if it was not there. */
  before: { mode: string; body: Buffer } | null
}

export interface CommitCommand {
  root: string
  /** When the files were approved, in milliseconds. */
  approvedAt: number
  files: readonly FileToCommit[]
  message: string
  /** A new branch; null for the current one. */
  branch: string | null
  isDryRun: boolean
  path: string
  scratch: string
  now: number
}

export interface CommitDone {
  branch: string
  /** Null for a dry run. */
  commit: string | null
  parent: string | null
  author: string
  files: { path: string; change: 'added' | 'modified' | 'deleted' }[]
  skipped: { path: string; reason: string }[]
}

/** Why nothing was committed, in a sentence. */
export class CommitRefused extends Error {}

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
const MAX_REFS_BYTES = 32 * 1024 * 1024
const MAX_INDEX_BYTES = 128 * 1024 * 1024
const TIMEOUT_MS = 30_000
const AT_ONCE = 4
const WHOLE = ['-c', 'core.splitIndex=false'] as const
const IGNORED = ['--no-literal-pathspecs', 'check-ignore', '-z', '--stdin', '--no-index'] as const
const BUSY = ['MERGE_HEAD', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'rebase-merge', 'rebase-apply', 'BISECT_LOG']

export async function commitFiles(command: CommitCommand): Promise<CommitDone> {
  const { root, scratch, branch } = command
  const repository = await findRepository(root)
  if (!repository) throw new CommitRefused('The project is not in a git repository.')
  const current = await currentBranch(repository)
  const parent = await headCommit(repository)
  if (parent === undefined) throw new CommitRefused("The repository's HEAD can't be read.")
  if (branch === null) refuseUnless(repository, current)
  const target = branch ?? current ?? ''
  await refuseName(target, command, repository)
  if (branch !== null) await refuseTaken(repository, branch)
  const author = authorOf(repository)
  await mkdir(scratch, { recursive: true })
  const work = await mkdtemp(join(scratch, 'commit-'))
  try {
    const tree = join(work, 'tree')
    const index = join(work, 'index')
    for (const gitDir of [tree, index]) {
      await mkdir(gitDir)
      if (!(await fillMirror(gitDir, repository))) throw new CommitRefused("The repository can't be read.")
    }
    return await commitIn({ ...command, repository, parent, target, author, tree, index })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

interface Prepared extends CommitCommand {
  repository: UserRepository
  parent: string | null
  target: string
  author: { name: string; email: string }
  /** Git directories of ours: one with the index of HEAD, one with a copy of the user's. */
  tree: string
  index: string
}

async function commitIn(prepared: Prepared): Promise<CommitDone> {
  const { repository, parent, target, author, tree, index, branch, isDryRun, message, now } = prepared
  const git = (gitDir: string, args: string[], input: string | Buffer = '') =>
    run(prepared, gitDir, args, input)
  const prefix = prefixOf(repository, prepared.root)
  const { taken, skipped } = await usable(prepared, prefix)
  if (parent === null) await git(tree, ['read-tree', '--empty'])
  else await git(tree, ['read-tree', parent])
  const before = await entriesOf(git, tree)
  const lines: string[] = []
  const files: CommitDone['files'] = []
  const hashed = async (mode: string, full: string, body: Buffer, isKept: boolean) => {
    // A link's target is no text; line endings apply to files only.
    const how = mode === '120000' ? ['--no-filters'] : [`--path=${full}`]
    return (await git(tree, ['hash-object', ...(isKept ? ['-w'] : []), '--stdin', ...how], body)).trim()
  }
  const entryOf = async (file: FileToCommit['before'], full: string) =>
    file && `${file.mode} ${await hashed(file.mode, full, file.body, false)}`
  const oids = await inTurns(taken, async ({ path, mode, body }) =>
    mode === null ? null : await hashed(mode, `${prefix}${path}`, body, !isDryRun),
  )
  const isNewer = parent !== null && (await committedAt(git, tree, parent)) * 1000 > prepared.approvedAt
  for (const [at, { path, mode, before: approvedBefore }] of taken.entries()) {
    const full = `${prefix}${path}`
    const [old, oid] = [before.get(full), oids[at] ?? null]
    const entry = mode === null || oid === null ? null : `${mode} ${oid}`
    if (entry === (old ?? null)) continue
    if (isNewer && old !== undefined && old !== (await entryOf(approvedBefore, full))) {
      skipped.push({ path, reason: 'a commit after the approval has changed it' })
      continue
    }
    lines.push(entry === null ? `0 ${'0'.repeat(40)}\t${full}\0` : `${entry}\t${full}\0`)
    files.push({ path, change: entry === null ? 'deleted' : old === undefined ? 'added' : 'modified' })
  }
  const shown = { branch: target, parent, author: `${author.name} <${author.email}>`, files, skipped }
  if (files.length === 0) {
    const why = skipped[0]
      ? `${skipped[0].path}: ${skipped[0].reason}.`
      : 'The last commit has these files already.'
    throw new CommitRefused(why)
  }
  if (branch === null) await refuseStaged(git, index, before, lines)
  if (isDryRun) return { ...shown, commit: null }
  await git(tree, ['update-index', '-z', '--index-info'], lines.join(''))
  const made = (await git(tree, ['write-tree'])).trim()
  const parents = parent === null ? [] : ['-p', parent]
  const commit = (
    await git(tree, ['commit-tree', made, ...parents, '-F', '-'], `${message.trimEnd()}\n`)
  ).trim()
  const indexThen = (await readSmall(join(index, 'index'), MAX_INDEX_BYTES)) ?? null
  if (branch === null) {
    // A split index would name a file that only our copy has.
    await git(index, [...WHOLE, 'update-index', '--no-split-index'])
    await git(index, [...WHOLE, 'update-index', '-z', '--index-info'], lines.join(''))
  }
  const from = branch === null ? parent : null
  const reflog = `${author.name} <${author.email}> ${Math.floor(now / 1000)} +0000\tcommit (waymark): ${message.split('\n')[0]}`
  await replace(repository, {
    target,
    from,
    commit,
    reflog,
    index: branch === null ? index : null,
    indexThen,
  })
  return { ...shown, commit }
}

/** In seconds. */
async function committedAt(
  git: (gitDir: string, args: string[]) => Promise<string>,
  gitDir: string,
  commit: string,
): Promise<number> {
  return Number((await git(gitDir, ['show', '-s', '--format=%ct', commit])).trim())
}

async function run(
  { repository, path, author, now }: Prepared,
  gitDir: string,
  args: string[],
  input: string | Buffer,
): Promise<string> {
  const objects = join(repository.commonDir, 'objects')
  const { workTree } = repository
  const limits = { timeoutMs: TIMEOUT_MS }
  const person = { ...author, at: `${Math.floor(now / 1000)} +0000` }
  return (
    await runGit({ gitDir, args, path, input, cwd: workTree, objects, workTree, person, ...limits })
  ).toString()
}

/** The files of an index, as `mode oid` by path. */
async function entriesOf(
  git: (gitDir: string, args: string[]) => Promise<string>,
  gitDir: string,
): Promise<Map<string, string>> {
  const listed = await git(gitDir, ['ls-files', '--stage', '-z'])
  return new Map(
    listed.split('\0').flatMap((line) => {
      const [, mode, oid, path] = /^(\d+) ([0-9a-f]+) 0\t(.*)$/s.exec(line) ?? []
      return mode && oid && path ? [[path, `${mode} ${oid}`] as const] : []
    }),
  )
}

/** Leaves out what git would not take, or only after a program has changed it. */
async function usable(prepared: Prepared, prefix: string) {
  const { files, repository, tree } = prepared
  const skipped: CommitDone['skipped'] = []
  const paths = files.map(({ path }) => `${prefix}${path}\0`).join('')
  const git = (args: string[], input: string) => run(prepared, tree, args, input)
  const attributes = (await git(['check-attr', '-z', '--stdin', 'filter'], paths)).split('\0')
  const filters = new Map<string, string>()
  for (let at = 0; at + 2 < attributes.length; at += 3)
    filters.set(attributes[at] ?? '', attributes[at + 2] ?? '')
  const tracked = await entriesOf((gitDir, args) => run(prepared, gitDir, args, ''), prepared.index)
  const untracked = files.filter(({ path }) => !tracked.has(`${prefix}${path}`))
  // It reads its input as patterns; a path that begins with `./` is none.
  const asked = untracked.map(({ path }) => `./${prefix}${path}\0`).join('')
  const ignored = new Set(
    asked === '' ? [] : (await git([...IGNORED], asked).catch(nothingIgnored)).split('\0'),
  )
  const taken = files.filter(({ path, mode }) => {
    const full = `${prefix}${path}`
    const filter = filters.get(full) ?? 'unspecified'
    if (mode !== null && filter !== 'unspecified' && filter !== 'unset')
      skipped.push({ path, reason: `git changes it with the filter ${filter}; commit it yourself` })
    else if (ignored.has(`./${full}`)) skipped.push({ path, reason: 'git ignores it' })
    else if (isInOtherRepository(repository, full))
      skipped.push({ path, reason: 'it is in another repository' })
    else return true
    return false
  })
  return { taken, skipped }
}

/** Git exits with 1, and without a message, when it ignores none of the paths. */
function nothingIgnored(error: unknown): string {
  if (!(error instanceof GitFailed) || /fatal:|error:/.test(error.message)) throw error
  return ''
}

function isInOtherRepository({ workTree }: UserRepository, full: string): boolean {
  for (let folder = dirname(full); folder !== '.'; folder = dirname(folder)) {
    if (lstatSync(join(workTree, folder, '.git'), { throwIfNoEntry: false })) return true
  }
  return false
}

/** What the person has staged of these files would be lost. */
async function refuseStaged(
  git: (gitDir: string, args: string[]) => Promise<string>,
  index: string,
  head: ReadonlyMap<string, string>,
  lines: readonly string[],
): Promise<void> {
  const staged = await entriesOf(git, index)
  const lost = lines.flatMap((line) => {
    const [, entry = '', path = ''] = /^([^\t]*)\t(.*)\0$/s.exec(line) ?? []
    const now = staged.get(path) ?? null
    const wanted = entry.startsWith('0 ') ? null : entry
    return now === (head.get(path) ?? null) || now === wanted ? [] : path
  })
  if (lost.length === 0) return
  throw new CommitRefused(
    `These files have other staged changes: ${lost.slice(0, 10).join(', ')}. Commit or unstage them first.`,
  )
}

function refuseUnless({ gitDir }: UserRepository, current: string | null): void {
  if (current === null) throw new CommitRefused('HEAD is on no branch. Name a new branch for the commit.')
  const busy = BUSY.find((name) => existsSync(join(gitDir, name)))
  if (busy !== undefined)
    throw new CommitRefused('A merge, rebase or the like is in progress. Finish it, or name a new branch.')
}

async function refuseName(
  name: string,
  { path, scratch }: CommitCommand,
  { commonDir }: UserRepository,
): Promise<void> {
  await mkdir(scratch, { recursive: true })
  const isName = await runGit({ gitDir: scratch, args: ['check-ref-format', '--branch', name], path }).then(
    (out) => out.toString().trim() === name,
    () => false,
  )
  if (!isName) throw new CommitRefused(`${JSON.stringify(name)} is not a name for a branch.`)
  if (existsSync(join(commonDir, 'reftable')))
    throw new CommitRefused('Repositories with reftables are not supported.')
}

async function currentBranch({ gitDir }: UserRepository): Promise<string | null> {
  const head = (await readSmall(join(gitDir, 'HEAD'), 4096))?.toString().trim()
  return /^ref: refs\/heads\/(.+)$/.exec(head ?? '')?.[1] ?? null
}

/** The author as the repository or the person has configured it. */
function authorOf({ commonDir }: UserRepository): { name: string; email: string } {
  const home = homedir()
  const files = [join(commonDir, 'config'), join(home, '.gitconfig'), join(home, '.config/git/config')]
  const settings = files.map(plainSettings)
  const value = (key: string) =>
    settings
      .map((one) => one.get(key))
      .find(Boolean)
      ?.replaceAll(/[<>\n\0]/g, '')
      .slice(0, 200)
  const [name, email] = [value('user.name'), value('user.email')]
  if (name && email) return { name, email }
  throw new CommitRefused('Git does not know who you are. Set user.name and user.email with git config.')
}

function refFile({ commonDir }: UserRepository, branch: string): string {
  return join(commonDir, 'refs/heads', branch)
}

/** Refuses the name of a branch that exists, also packed, and one that would be the folder of another or in another. */
async function refuseTaken(repository: UserRepository, branch: string): Promise<void> {
  const packed =
    (await readSmall(join(repository.commonDir, 'packed-refs'), MAX_REFS_BYTES))?.toString() ?? ''
  const names = packed.split('\n').flatMap((line) => /^[0-9a-f]+ refs\/heads\/(.+)$/.exec(line)?.[1] ?? [])
  const parts = branch.split('/')
  const above = parts.slice(1).map((_, at) => parts.slice(0, at + 1).join('/'))
  const isLoose = (name: string) =>
    lstatSync(refFile(repository, name), { throwIfNoEntry: false })?.isFile() === true
  const taken = [...above, branch].find((name) => names.includes(name) || isLoose(name))
  const below = names.find((name) => name.startsWith(`${branch}/`))
  const isFolder = lstatSync(refFile(repository, branch), { throwIfNoEntry: false })?.isDirectory() === true
  const other = taken ?? below ?? (isFolder ? `${branch}/…` : undefined)
  if (other !== undefined) throw new CommitRefused(`The branch ${other} exists already. Choose another name.`)
}

/** Moves the branch, and replaces the index, under git's lock files. */
async function replace(
  repository: UserRepository,
  change: {
    target: string
    from: string | null
    commit: string
    reflog: string
    index: string | null
    /** The user's index when the commit began. */
    indexThen: Buffer | null
  },
): Promise<void> {
  const { target, from, commit, reflog, index, indexThen } = change
  const ref = refFile(repository, target)
  const indexFile = join(repository.gitDir, 'index')
  await makeFolder(repository.commonDir, repository.gitDir, dirname(ref))
  const bytes = index === null ? null : await readSmall(join(index, 'index'), MAX_INDEX_BYTES)
  const locks: string[] = []
  try {
    if (bytes) locks.push(await lockWith(indexFile, bytes))
    locks.push(await lockWith(ref, Buffer.from(`${commit}\n`)))
    const indexNow = (await readSmall(indexFile, MAX_INDEX_BYTES)) ?? null
    if (index !== null && !isSameIndex(indexThen, indexNow))
      throw new CommitRefused('The index has changed meanwhile. Try again.')
    if (index !== null && (await headCommit(repository)) !== from)
      throw new CommitRefused('The branch has moved meanwhile. Try again.')
    if (index === null) await refuseTaken(repository, target)
    await noteInReflog(repository, { ...change, from, commit, reflog })
    await rename(`${ref}.lock`, ref)
    if (bytes) await rename(`${indexFile}.lock`, indexFile)
    locks.length = 0
  } finally {
    for (const lock of locks) await rm(lock, { force: true })
  }
}

function isSameIndex(then: Buffer | null, now: Buffer | null): boolean {
  return then === null || now === null ? then === now : then.equals(now)
}

/** Creates the lock file with the new content; refuses if git holds it. */
async function lockWith(file: string, bytes: Buffer): Promise<string> {
  const lock = `${file}.lock`
  const handle = await open(lock, O_CREAT | O_EXCL | O_WRONLY, 0o644).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      throw new CommitRefused(
        `Git is at work in the repository (${lock} exists). Try again when it has finished.`,
      )
    },
  )
  try {
    await handle.writeFile(bytes)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return lock
}

async function noteInReflog(
  { gitDir, commonDir }: UserRepository,
  {
    target,
    from,
    commit,
    reflog,
    index,
  }: { target: string; from: string | null; commit: string; reflog: string; index: string | null },
): Promise<void> {
  const line = `${from ?? '0'.repeat(commit.length)} ${commit} ${reflog}\n`
  const logs = [
    join(commonDir, 'logs/refs/heads', target),
    ...(index === null ? [] : [join(gitDir, 'logs/HEAD')]),
  ]
  // Without this folder, the person keeps no logs.
  if (!existsSync(join(commonDir, 'logs'))) return
  for (const log of logs) {
    await makeFolder(commonDir, gitDir, dirname(log))
    // A link could lead anywhere, and the message is text of a model.
    const handle = await open(log, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o644)
    try {
      await handle.writeFile(line)
    } finally {
      await handle.close()
    }
  }
}

/** Creates a folder of the repository; refuses one that links lead out of it. */
async function makeFolder(commonDir: string, gitDir: string, folder: string): Promise<void> {
  const isInside = (path: string) =>
    [commonDir, gitDir].some(
      (root) => path === realpathSync(root) || path.startsWith(realpathSync(root) + sep),
    )
  let existing = folder
  while (!existsSync(existing)) existing = dirname(existing)
  if (!isInside(realpathSync(existing))) throw new CommitRefused(`${existing} leads out of the repository.`)
  await mkdir(folder, { recursive: true })
}

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  async function take(): Promise<void> {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as T)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, take))
  return results
}
