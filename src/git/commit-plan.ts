import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { CommitRefused } from './commit-refused.ts'
import { GitFailed } from './git.ts'
import { lastMoved } from './move-branch.ts'
import { prefixOf } from './status.ts'
import type { UserRepository } from './user-repository.ts'

/** Decides what a commit contains: the given files, without those that git would not take or that are newer in the repository. */

interface Version {
  mode: string
  body: Buffer
}

export interface FileToCommit {
  /** Relative to the project. */
  path: string
  /** Git's mode; null for a file that is deleted. */
  mode: string | null
  body: Buffer
  /** The file before each of the approvals that changed it; null where it was not there. */
  before: (Version | null)[]
  /** Why checkpoints leave it out: it may exist although they lack it. Null if they include it. */
  leftOut: string | null
}

export interface PlannedFile {
  path: string
  /** Relative to the repository. */
  full: string
  change: 'added' | 'modified' | 'deleted'
  /** `mode oid`; null for a deleted file. */
  entry: string | null
}

export interface SkippedFile {
  path: string
  reason: string
}

export interface CommitPlan {
  files: PlannedFile[]
  skipped: SkippedFile[]
  /** The files for `git update-index --index-info`. */
  lines: string[]
}

/** Runs git in a directory of ours. */
type RunInOurs = (gitDir: string, args: string[], input?: string | Buffer) => Promise<string>

interface PlanCommand {
  git: RunInOurs
  repository: UserRepository
  root: string
  files: readonly FileToCommit[]
  /** When the files were approved, in milliseconds. */
  approvedAt: number
  parent: string | null
  /** Git directories of ours: one for the index of HEAD, one with a copy of the user's. */
  tree: string
  index: string
  /** A new branch; null for the current one, whose index keeps what is staged. */
  branch: string | null
  isDryRun: boolean
  /** The system has no exec bits. */
  keepsModes: boolean
}

const AT_ONCE = 4
const CRLF = Buffer.from('\r\n')
const TEXT_ATTRIBUTES = ['text', 'crlf', 'eol']
const IGNORED = ['--no-literal-pathspecs', 'check-ignore', '-z', '--stdin', '--no-index'] as const

/** Reads HEAD into the index of `tree`, and compares the files with it. Refuses a commit of nothing. */
export async function planCommit(command: PlanCommand): Promise<CommitPlan> {
  const { git, repository, parent, tree, branch, isDryRun } = command
  const prefix = prefixOf(repository, command.root)
  const { taken, skipped, isAutomatic } = await usable(command, prefix)
  await git(tree, ['read-tree', ...(parent === null ? ['--empty'] : [parent])])
  const head = await entriesOf(git, tree)
  const hasCrlf = new Map<string, Promise<boolean>>()
  /** Like git, leaves the line endings alone if the last commit's version has CRLF, unless an attribute says otherwise. */
  const keepsCrlf = async ({ body }: Version, full: string) => {
    const [, oid] = head.get(full)?.split(' ') ?? []
    if (oid === undefined || !isAutomatic(full) || !body.includes(CRLF)) return false
    const known = hasCrlf.get(oid) ?? git(tree, ['cat-file', 'blob', oid]).then(isCrlfText)
    hasCrlf.set(oid, known)
    return await known
  }
  const hashed = async (file: Version, full: string, isKept: boolean) => {
    // A link's target is no text; line endings apply to files only.
    const isRaw = file.mode === '120000' || (await keepsCrlf(file, full))
    const how = isRaw ? ['--no-filters'] : [`--path=${full}`]
    const args = ['hash-object', ...(isKept ? ['-w'] : []), '--stdin', ...how]
    return (await git(tree, args, file.body)).trim()
  }
  /** True if the file was like this, or missing, before one of the approvals. */
  const wasApprovedFrom = async (old: string | undefined, file: FileToCommit, full: string) => {
    for (const one of file.before) {
      const entry = one && `${modeOf(command, one.mode, old)} ${await hashed(one, full, false)}`
      if (entry === (old ?? null)) return true
    }
    return false
  }

  const wanted = await inTurns(taken, async (file) => {
    const { path, mode, body } = file
    const full = `${prefix}${path}`
    const old = head.get(full)
    if (mode === null) return { file, full, old, entry: null }
    const oid = await hashed({ mode, body }, full, !isDryRun)
    return { file, full, old, entry: `${modeOf(command, mode, old)} ${oid}` }
  })
  // Git's times have no milliseconds: a commit of the same second may be newer.
  const movedAt = Math.max(await committedAt(command), await lastMoved(repository)) * 1000 + 999
  const names = new Set([...head.keys(), ...[...head.keys()].flatMap(foldersOf)])
  const gone = new Set<string>()
  const files: PlannedFile[] = []
  // Deletions first: they make room.
  const inOrder = [
    ...wanted.filter(({ entry }) => entry === null),
    ...wanted.filter(({ entry }) => entry !== null),
  ]
  for (const { file, full, old, entry } of inOrder) {
    const { path } = file
    if (entry === (old ?? null)) continue
    if (movedAt > command.approvedAt && !(await wasApprovedFrom(old, file, full))) {
      skipped.push({ path, reason: 'a commit after the approval has changed it' })
    } else if (entry !== null && inTheWay(full, head, names, gone)) {
      skipped.push({ path, reason: 'the last commit has a folder or a file in its place' })
    } else {
      if (entry === null) gone.add(full)
      files.push({
        path,
        full,
        change: entry === null ? 'deleted' : old === undefined ? 'added' : 'modified',
        entry,
      })
    }
  }
  files.sort((one, other) => (one.path < other.path ? -1 : 1))
  skipped.sort((one, other) => (one.path < other.path ? -1 : 1))
  if (files.length === 0) {
    const why = skipped[0]
      ? `${skipped[0].path}: ${skipped[0].reason}.`
      : 'The last commit already has these files.'
    throw new CommitRefused(why)
  }
  if (branch === null) await refuseStaged(command, head, files, gone)
  // Mode 0 deletes the file.
  const lines = files.map(({ full, entry }) => `${entry ?? head.get(full)?.replace(/^\d+/, '0')}\t${full}\0`)
  return { files, skipped, lines }
}

/** In seconds; 0 before the first commit. */
async function committedAt({ git, tree, parent }: PlanCommand): Promise<number> {
  if (parent === null) return 0
  // Not `git show`, which needs the parent too: a shallow clone lacks it.
  const text = await git(tree, ['cat-file', 'commit', parent])
  return Number(/^committer .* (\d+) [+-]\d+$/m.exec(text)?.[1] ?? 0)
}

/** Git's mode for the file; where the system has no exec bits, the one that the last commit has. */
function modeOf({ keepsModes }: PlanCommand, mode: string, old: string | undefined): string {
  if (!keepsModes || !mode.startsWith('100')) return mode
  const [oldMode = ''] = old?.split(' ') ?? []
  return oldMode.startsWith('100') ? oldMode : '100644'
}

function foldersOf(path: string): string[] {
  return path
    .split('/')
    .slice(0, -1)
    .map((_, at, parts) => parts.slice(0, at + 1).join('/'))
}

/** True if a file is where the path needs a folder, or a folder that stays where it needs a file. */
function inTheWay(
  path: string,
  files: ReadonlyMap<string, string>,
  names: ReadonlySet<string>,
  gone: ReadonlySet<string>,
): boolean {
  if (foldersOf(path).some((folder) => files.has(folder) && !gone.has(folder))) return true
  if (files.has(path) || !names.has(path)) return false
  return [...files.keys()].some((other) => other.startsWith(`${path}/`) && !gone.has(other))
}

/** The files of an index, as `mode oid` by path. */
async function entriesOf(git: RunInOurs, gitDir: string): Promise<Map<string, string>> {
  const listed = await git(gitDir, ['ls-files', '--stage', '-z'])
  return new Map(
    listed.split('\0').flatMap((line) => {
      const [, mode, oid, path] = /^(\d+) ([0-9a-f]+) 0\t(.*)$/s.exec(line) ?? []
      return mode && oid && path ? [[path, `${mode} ${oid}`] as const] : []
    }),
  )
}

/** Leaves out what git would not take, or only after a program has changed it. */
async function usable(command: PlanCommand, prefix: string) {
  const { files, repository, tree, index } = command
  const skipped: SkippedFile[] = []
  const within = files.filter(({ path, leftOut }) => {
    const reason = isQuoted(path)
      ? 'its name has unusual bytes; commit it yourself'
      : isBeyondLink(repository, `${prefix}${path}`)
        ? 'its path contains a symbolic link'
        : leftOut && `checkpoints leave it out: ${leftOut}`
    if (reason) skipped.push({ path, reason })
    return !reason
  })
  const paths = within.map(({ path }) => `${prefix}${path}\0`).join('')
  const git = (args: string[], input: string) => command.git(tree, args, input)
  const attributes = (await git(['check-attr', '-z', '--stdin', 'filter', ...TEXT_ATTRIBUTES], paths)).split(
    '\0',
  )
  const filters = new Map<string, string>()
  /** Files whose line endings an attribute settles, so that the last commit's version doesn't count. */
  const settled = new Set<string>()
  const automatic = new Set<string>()
  for (let at = 0; at + 2 < attributes.length; at += 3) {
    const [full = '', name = '', value = ''] = attributes.slice(at, at + 3)
    if (name === 'filter') filters.set(full, value)
    else if (name === 'text' && value === 'auto') automatic.add(full)
    else if (value !== 'unspecified') settled.add(full)
  }
  const isAutomatic = (full: string) => automatic.has(full) || !settled.has(full)
  const tracked = await entriesOf(command.git, index)
  const untracked = within.filter(({ path }) => !tracked.has(`${prefix}${path}`))
  // It reads its input as patterns; a path that begins with `./` is none.
  const asked = untracked.map(({ path }) => `./${prefix}${path}\0`).join('')
  const ignored = new Set(
    asked === '' ? [] : (await git([...IGNORED], asked).catch(nothingIgnored)).split('\0'),
  )
  const taken = within.filter(({ path, mode }) => {
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
  return { taken, skipped, isAutomatic }
}

/** Names that are not UTF-8 are shown quoted, as git shows them, and would be committed under that name. */
function isQuoted(path: string): boolean {
  return path.startsWith('"')
}

/** Git's own test: text with at least one CRLF. */
function isCrlfText(content: string): boolean {
  return content.includes('\r\n') && !content.includes('\0') && !/\r(?!\n)/.test(content)
}

/** Git exits with 1 when it ignores none of the paths. */
function nothingIgnored(error: unknown): string {
  if (!(error instanceof GitFailed) || error.code !== 1) throw error
  return ''
}

function isInOtherRepository({ workTree }: UserRepository, full: string): boolean {
  return foldersOf(full).some((folder) => existsAt(join(workTree, folder, '.git')))
}

function existsAt(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    // A file is in place of a folder.
    return false
  }
}

/** Git refuses paths that lead through a link. */
function isBeyondLink({ workTree }: UserRepository, full: string): boolean {
  return foldersOf(full).some((folder) => {
    try {
      return lstatSync(join(workTree, folder), { throwIfNoEntry: false })?.isSymbolicLink() === true
    } catch {
      return false
    }
  })
}

/** Refuses to overwrite other staged changes of these files, and unresolved conflicts. */
async function refuseStaged(
  { git, index }: PlanCommand,
  head: ReadonlyMap<string, string>,
  files: readonly PlannedFile[],
  gone: ReadonlySet<string>,
): Promise<void> {
  const staged = await entriesOf(git, index)
  const names = new Set([...staged.keys(), ...[...staged.keys()].flatMap(foldersOf)])
  const unmerged = (await git(index, ['ls-files', '--unmerged', '-z'])).split('\0')
  const conflicts = new Set(unmerged.map((line) => line.slice(line.indexOf('\t') + 1)))
  const lost = files.flatMap(({ full, entry }) => {
    const now = staged.get(full) ?? null
    const isFree = entry === null || !inTheWay(full, staged, names, gone)
    const isSafe = now === (head.get(full) ?? null) || now === entry
    return isSafe && isFree && !conflicts.has(full) ? [] : full
  })
  if (lost.length === 0) return
  throw new CommitRefused(
    `These files have other staged changes or conflicts: ${lost.slice(0, 10).join(', ')}. Commit or unstage them first.`,
  )
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
