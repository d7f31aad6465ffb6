import { constants, existsSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { mkdir, open, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { CommitRefused } from './commit-refused.ts'
import { headCommit, readEnd, readSmall, type UserRepository } from './user-repository.ts'

/** The last step of a commit, as git does it: under its lock files, so that nothing that happens meanwhile is lost. */

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants
const MAX_REFS_BYTES = 32 * 1024 * 1024
const MAX_LOG_LINE = 64 * 1024
const MAX_LOG = 256 * 1024
const MAX_INDEX_BYTES = 128 * 1024 * 1024

/** The user's index; null if there is none. */
export async function readIndex({ gitDir }: UserRepository): Promise<Buffer | null> {
  const file = join(gitDir, 'index')
  const found = await readSmall(file, MAX_INDEX_BYTES)
  if (found) return found
  if (lstatSync(file, { throwIfNoEntry: false }))
    throw new CommitRefused('The index is a link, or too large. Use git commit instead.')
  return null
}

export async function currentBranch({ gitDir }: UserRepository): Promise<string | null> {
  const head = (await readSmall(join(gitDir, 'HEAD'), 4096))?.toString().trim()
  return /^ref: refs\/heads\/(.+)$/.exec(head ?? '')?.[1] ?? null
}

/** When HEAD last moved, in seconds, by a commit, a pull or a switch; 0 if there is no log. */
export async function lastMoved({ gitDir }: UserRepository): Promise<number> {
  const log = await readEnd(join(gitDir, 'logs/HEAD'), MAX_LOG_LINE)
  const last = log?.toString().trimEnd().split('\n').at(-1) ?? ''
  return Number(/> (\d+) [+-]\d+(?:\t|$)/.exec(last)?.[1] ?? 0)
}

/** True if HEAD was on this branch at that time, in milliseconds, as far as git has recorded it. */
export async function wasOn({ gitDir }: UserRepository, branch: string | null, at: number): Promise<boolean> {
  // Git replaces this file when it switches branches; a commit leaves it alone.
  if (statSync(join(gitDir, 'HEAD')).mtimeMs <= at) return true
  const log = (await readEnd(join(gitDir, 'logs/HEAD'), MAX_LOG))?.toString() ?? ''
  const switches = log.split('\n').flatMap((line) => {
    const [, time, from] = /> (\d+) [+-]\d+\tcheckout: moving from (\S+) to /.exec(line) ?? []
    return time === undefined ? [] : { second: Number(time) * 1000, from }
  })
  const later = switches.filter(({ second }) => second + 999 >= at)
  // Git's times have no milliseconds: a switch in the same second may have been before or after.
  const first = later.findIndex(({ second }) => second > at)
  const possible = first < 0 ? later : later.slice(0, first + 1)
  return possible.length > 0 && possible.every(({ from }) => from === branch)
}

function refFile({ commonDir }: UserRepository, branch: string): string {
  return join(commonDir, 'refs/heads', branch)
}

/** Refuses a name that an existing branch has, loose or packed, or that conflicts with one, as `a` does with `a/b`. */
export async function refuseTaken(repository: UserRepository, branch: string): Promise<void> {
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
  if (other !== undefined) throw new CommitRefused(`The branch ${other} already exists. Choose another name.`)
}

/** Moves the branch, and replaces the index, under git's lock files. */
export async function moveBranch(
  repository: UserRepository,
  change: {
    target: string
    from: string | null
    commit: string
    reflog: string
    /** The current branch's new index; null for another branch. */
    index: Buffer | null
    /** The user's index that the new one was made from. */
    indexThen: Buffer | null
  },
): Promise<void> {
  const { target, from, commit, reflog, index, indexThen } = change
  const ref = refFile(repository, target)
  const indexFile = join(repository.gitDir, 'index')
  await makeFolder(repository.commonDir, repository.gitDir, dirname(ref))
  await clearPlace(ref)
  const locks: string[] = []
  try {
    if (index) locks.push(await lockWith(indexFile, index))
    locks.push(await lockWith(ref, Buffer.from(`${commit}\n`)))
    if (index === null) await refuseTaken(repository, target)
    else {
      if (!isSameIndex(indexThen, await readIndex(repository)))
        throw new CommitRefused('The index changed during the commit. Try again.')
      if ((await currentBranch(repository)) !== target || (await headCommit(repository)) !== from)
        throw new CommitRefused('The branch changed during the commit. Try again.')
    }
    await noteInReflog(repository, { ...change, from, commit, reflog })
    // The index first: if the process ends in between, the approved changes are staged, and nothing is lost.
    if (index) await rename(`${indexFile}.lock`, indexFile)
    await rename(`${ref}.lock`, ref)
    locks.length = 0
  } finally {
    for (const lock of locks) await rm(lock, { force: true })
  }
}

function isSameIndex(then: Buffer | null, now: Buffer | null): boolean {
  return then === null || now === null ? then === now : then.equals(now)
}

/** A packed branch may have an empty folder in its place, which git removes too. */
async function clearPlace(ref: string): Promise<void> {
  const found = lstatSync(ref, { throwIfNoEntry: false })
  if (!found || found.isFile()) return
  if (found.isDirectory()) await rmdir(ref).catch(() => {})
  if (lstatSync(ref, { throwIfNoEntry: false }))
    throw new CommitRefused(`${ref} is not a file. Use git commit instead.`)
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
  }: { target: string; from: string | null; commit: string; reflog: string; index: Buffer | null },
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
    // A link could lead anywhere, and a pipe would block the server.
    const handle = await open(log, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0o644).catch(
      () => {
        throw new CommitRefused(`${log} can't be written. Use git commit instead.`)
      },
    )
    try {
      if (!(await handle.stat()).isFile())
        throw new CommitRefused(`${log} is not a file. Use git commit instead.`)
      await handle.writeFile(line)
    } finally {
      await handle.close()
    }
  }
}

/** Creates a folder in the repository; refuses if a link leads out of it. */
async function makeFolder(commonDir: string, gitDir: string, folder: string): Promise<void> {
  const isInside = (path: string) =>
    [commonDir, gitDir].some(
      (root) => path === realpathSync(root) || path.startsWith(realpathSync(root) + sep),
    )
  let existing = folder
  while (!existsSync(existing)) existing = dirname(existing)
  if (!isInside(realpathSync(existing)))
    throw new CommitRefused(
      `${existing} is outside the repository, because of a symbolic link. Use git commit instead.`,
    )
  await mkdir(folder, { recursive: true })
}
