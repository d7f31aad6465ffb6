import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileToCommit, type PlannedFile, planCommit, type SkippedFile } from './commit-plan.ts'
import { CommitRefused } from './commit-refused.ts'
import { commitSettings } from './commit-settings.ts'
import { GitFailed, runGit } from './git.ts'
import {
  describeHooks,
  type HookReport,
  hooksOf,
  type RunHook,
  runHooksAfter,
  runHooksBefore,
} from './hooks.ts'
import { currentBranch, moveBranch, readIndex, refuseTaken, wasOn } from './move-branch.ts'
import { fillMirror } from './status.ts'
import { findRepository, headCommit, readSmall, type UserRepository } from './user-repository.ts'

/**
 * The only writes to the user's repository are those of a commit of given files, on request. Git works in a directory of ours
 * and adds objects to the repository; the branch and the index are then replaced as git does it, under its lock files. The
 * only settings of the repository that count are the author, the line endings, `core.fileMode` and `core.hooksPath`. No filter
 * or other program runs, and hooks run only on request.
 */

export interface CommitCommand {
  root: string
  /** When the files were approved, in milliseconds. */
  approvedAt: number
  files: readonly FileToCommit[]
  message: string
  /** A new branch; null for the current one. */
  branch: string | null
  isDryRun: boolean
  /** Null to run none of the repository's hooks. */
  runHook: RunHook | null
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
  files: Pick<PlannedFile, 'path' | 'change'>[]
  skipped: SkippedFile[]
  message: string
  hooks: HookReport[]
}

const MAX_INDEX_BYTES = 128 * 1024 * 1024
const TIMEOUT_MS = 30_000
const WHOLE = ['-c', 'core.splitIndex=false'] as const
const BUSY = ['MERGE_HEAD', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'rebase-merge', 'rebase-apply', 'BISECT_LOG']

/** The branch that the project's repository is on; null if there is none. */
export async function branchOf(root: string): Promise<string | null> {
  const repository = await findRepository(root)
  return repository && (await currentBranch(repository))
}

/** The first of these commits that HEAD contains; null if it has none of them, for example after a reset. */
export async function lastContained(
  root: string,
  commits: readonly string[],
  { path, scratch }: Pick<CommitCommand, 'path' | 'scratch'>,
): Promise<string | null> {
  const repository = await findRepository(root)
  const head = repository && (await headCommit(repository))
  if (!head || commits.length === 0) return null
  if (commits[0] === head) return head
  await mkdir(scratch, { recursive: true })
  const gitDir = await mkdtemp(join(scratch, 'commit-'))
  try {
    if (!(await fillMirror(gitDir, repository))) return null
    const { workTree: cwd, commonDir } = repository
    const from = { gitDir, path, cwd, objects: join(commonDir, 'objects'), timeoutMs: TIMEOUT_MS }
    for (const commit of commits) {
      const args = ['merge-base', '--is-ancestor', commit, head]
      const isContained = await runGit({ ...from, args }).then(() => true, isNotContained)
      if (isContained) return commit
    }
    return null
  } finally {
    await rm(gitDir, { recursive: true, force: true })
  }
}

/** Git exits with 1, or with 128 if the commit no longer exists. */
function isNotContained(error: unknown): false {
  if (!(error instanceof GitFailed)) throw error
  return false
}

export async function commitFiles(command: CommitCommand): Promise<CommitDone> {
  const repository = await findRepository(command.root)
  if (!repository) throw new CommitRefused('The project is not in a git repository.')
  const { scratch, branch } = command
  const current = await currentBranch(repository)
  const parent = await headCommit(repository)
  if (parent === undefined) throw new CommitRefused("The repository's HEAD can't be read. Run git fsck.")
  if (branch === null) refuseUnless(repository, current)
  const target = branch ?? current ?? ''
  await refuseName(target, command, repository)
  if (branch !== null) await refuseTaken(repository, branch)
  if (!(await wasOn(repository, current, command.approvedAt)))
    throw new CommitRefused(
      'The branch was switched after the approval, so the approved files may be those of another branch. Approve again, then commit.',
    )
  const settings = await commitSettings(repository, command.path)
  const author = authorOf(settings)
  const hooks = hooksOf(repository, settings)
  const keepsModes = /^(false|no|off|0)$/i.test(settings.get('core.filemode') ?? '')
  await refuseLinks(repository)
  await mkdir(scratch, { recursive: true })
  const work = await mkdtemp(join(scratch, 'commit-'))
  try {
    // Before it is copied, so that any later change is noticed.
    const indexThen = await readIndex(repository)
    const tree = join(work, 'tree')
    const index = join(work, 'index')
    for (const gitDir of [tree, index]) {
      await mkdir(gitDir)
      if (!(await fillMirror(gitDir, repository)))
        throw new CommitRefused("The repository can't be read. Run git fsck.")
    }
    const found = { repository, hooks, keepsModes, parent, target, author, tree, index, indexThen }
    return await commitIn({ ...command, ...found })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

interface Prepared extends CommitCommand {
  repository: UserRepository
  hooks: ReturnType<typeof hooksOf>
  /** The system has no exec bits. */
  keepsModes: boolean
  parent: string | null
  target: string
  author: { name: string; email: string }
  /** Git directories of ours: one with the index of HEAD, one with a copy of the user's. */
  tree: string
  index: string
  /** The user's index that ours was copied from. */
  indexThen: Buffer | null
}

async function commitIn(prepared: Prepared): Promise<CommitDone> {
  const { repository, hooks, parent, target, author, tree, index, branch, isDryRun, runHook } = prepared
  const git = (gitDir: string, args: string[], input: string | Buffer = '') =>
    run(prepared, gitDir, args, input)
  const { lines, files, skipped } = await planCommit({ ...prepared, git })
  const shown = {
    branch: target,
    parent,
    author: `${author.name} <${author.email}>`,
    files: files.map(({ path, change }) => ({ path, change })),
    skipped,
    message: prepared.message,
    hooks: describeHooks(hooks, repository, () => false),
  }
  if (isDryRun) return { ...shown, commit: null }
  await git(tree, ['update-index', '-z', '--index-info'], lines.join(''))
  const made = (await git(tree, ['write-tree'])).trim()
  const message = runHook === null ? prepared.message : await messageFromHooks({ ...prepared, runHook, made })
  const parents = parent === null ? [] : ['-p', parent]
  const committed = await git(tree, ['commit-tree', made, ...parents, '-F', '-'], `${message.trimEnd()}\n`)
  const commit = committed.trim()
  const paths = files.map(({ full }) => full)
  await assertStored(prepared, made, commit, paths)
  if (branch === null) {
    // A split index would name a file that only our copy has.
    await git(index, [...WHOLE, 'update-index', '--no-split-index'])
    await git(index, [...WHOLE, 'update-index', '-z', '--index-info'], lines.join(''))
  }
  await moveTo(prepared, commit, message)
  if (runHook === null) return { ...shown, message, commit }
  // With a new branch, post-commit would see the old HEAD.
  const hasRunAfter = branch === null && (await runHooksAfter(hooks, repository, runHook))
  const hasRun = (name: string) => name !== 'post-commit' || hasRunAfter
  return { ...shown, message, commit, hooks: describeHooks(hooks, repository, hasRun) }
}

async function moveTo(
  { repository, parent, target, author, index, branch, now, indexThen }: Prepared,
  commit: string,
  message: string,
): Promise<void> {
  const from = branch === null ? parent : null
  const reflog = `${author.name} <${author.email}> ${Math.floor(now / 1000)} +0000\tcommit (waymark): ${message.split('\n')[0]}`
  const changed = branch === null ? await readSmall(join(index, 'index'), MAX_INDEX_BYTES) : null
  if (changed === undefined) throw new CommitRefused('The index is too large. Use git commit instead.')
  await moveBranch(repository, { target, from, commit, reflog, index: changed, indexThen })
}

/** The message as the hooks leave it; refuses if they change what is committed. */
async function messageFromHooks(prepared: Prepared & { runHook: RunHook; made: string }): Promise<string> {
  const { repository, author, message, tree, hooks, made, runHook } = prepared
  const file = join(tree, 'index')
  // Refresh the cached file times, so that hooks don't see unchanged files as modified.
  await run(prepared, tree, ['update-index', '-q', '--refresh'], '')
  const index = await readSmall(file, MAX_INDEX_BYTES)
  if (!index)
    throw new CommitRefused('The index is too large for hooks. Commit without hooks, or use git commit.')
  return await runHooksBefore(hooks, {
    repository,
    run: runHook,
    author,
    message,
    index,
    async check(then) {
      await writeFile(file, then)
      if ((await run(prepared, tree, ['write-tree'], '')).trim() === made) return
      throw new CommitRefused(
        'A hook has changed what would be committed. Approve its changes and commit again, or commit without hooks.',
      )
    },
  })
}

async function run(
  prepared: Prepared,
  gitDir: string,
  args: string[],
  input: string | Buffer,
): Promise<string> {
  return (await runRaw(prepared, gitDir, args, input)).toString()
}

async function runRaw(
  { repository, path, author, now }: Prepared,
  gitDir: string,
  args: string[],
  input: string | Buffer,
): Promise<Buffer> {
  const objects = join(repository.commonDir, 'objects')
  const { workTree } = repository
  const limits = { timeoutMs: TIMEOUT_MS }
  const person = { ...author, at: `${Math.floor(now / 1000)} +0000` }
  return await runGit({ gitDir, args, path, input, cwd: workTree, objects, workTree, person, ...limits })
}

/** Git writes into these folders, and a link would lead out of the repository. */
async function refuseLinks({ commonDir }: UserRepository): Promise<void> {
  const entries = await readdir(join(commonDir, 'objects'), { withFileTypes: true })
  const link = entries.find((entry) => entry.isSymbolicLink())
  if (link)
    throw new CommitRefused(
      `objects/${link.name} in the repository is a symbolic link. Use git commit instead.`,
    )
}

/** Git keeps an existing object without checking its content, so the commit, its trees and its files are read back and hashed. */
async function assertStored(
  prepared: Prepared,
  tree: string,
  commit: string,
  paths: readonly string[],
): Promise<void> {
  const { tree: gitDir } = prepared
  const listed = (await run(prepared, gitDir, ['ls-tree', '-r', '-t', '-z', tree], '')).split('\0')
  const wanted = new Set(
    paths.flatMap((path) => path.split('/').map((_, at, parts) => parts.slice(0, at + 1).join('/'))),
  )
  const oids = [tree, commit]
  for (const line of listed) {
    const [, oid, path] = /^\d+ (?:blob|tree) ([0-9a-f]+)\t(.*)$/s.exec(line) ?? []
    if (oid && path && wanted.has(path)) oids.push(oid)
  }
  const stored = await runRaw(prepared, gitDir, ['cat-file', '--batch'], `${oids.join('\n')}\n`)
  let at = 0
  for (const oid of oids) {
    const end = stored.indexOf('\n', at)
    const [, type, size] = stored.subarray(at, end).toString().split(' ')
    const body = stored.subarray(end + 1, end + 1 + Number(size))
    at = end + 1 + Number(size) + 1
    const object = Buffer.concat([Buffer.from(`${type} ${size}\0`), body])
    if (hash(oid.length === 64 ? 'sha256' : 'sha1', object) !== oid)
      throw new CommitRefused(`The object ${oid} in the repository is damaged. Run git fsck.`)
  }
}

function refuseUnless({ gitDir }: UserRepository, current: string | null): void {
  if (current === null) throw new CommitRefused('HEAD is detached. Name a new branch for the commit.')
  const busy = BUSY.find((name) => existsSync(join(gitDir, name)))
  if (busy !== undefined)
    throw new CommitRefused('A merge, rebase or similar is in progress. Finish it, or name a new branch.')
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
  if (!isName) throw new CommitRefused(`${JSON.stringify(name)} is not a valid branch name.`)
  if (existsSync(join(commonDir, 'reftable')))
    throw new CommitRefused("Waymark can't commit to a repository with reftables. Use git commit instead.")
}

/** The author as the repository or the person has configured it. */
function authorOf(settings: ReadonlyMap<string, string>): { name: string; email: string } {
  const value = (key: string) =>
    (settings.get(`author.${key}`) || settings.get(`user.${key}`))?.replaceAll(/[<>\n\0]/g, '').slice(0, 200)
  const [name, email] = [value('name'), value('email')]
  if (name && email) return { name, email }
  throw new CommitRefused('Git does not know who you are. Set user.name and user.email with git config.')
}
