import { randomBytes } from 'node:crypto'
import { constants, statSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { CommitRefused } from './commit-refused.ts'
import { readSmall, type UserRepository } from './user-repository.ts'

/**
 * The hooks of a commit. They are programs, and a model may have written them, so they run only on request, and under the same
 * limits as the agent's commands.
 */

const HOOKS = ['pre-commit', 'prepare-commit-msg', 'commit-msg', 'post-commit'] as const
type HookName = (typeof HOOKS)[number]

/** Starts a hook and resolves when it has ended; the code is null if it was killed or took too long. */
export type RunHook = (program: {
  argv: readonly string[]
  cwd: string
  variables: Readonly<Record<string, string>>
}) => Promise<{ code: number | null; output: string }>

export interface HookReport {
  name: string
  /** Relative to the repository, or absolute if it is elsewhere. */
  path: string
  hasRun: boolean
}

interface Hook {
  name: HookName
  file: string
}

const MAX_MESSAGE_BYTES = 64 * 1024
/** What hooks may add to the index. */
const MAX_ADDED_BYTES = 64 * 1024
const MAX_SHOWN = 2000

/** The supported hooks that exist and are executable, in `core.hooksPath` if it is set. */
export function hooksOf(repository: UserRepository, settings: ReadonlyMap<string, string>): Hook[] {
  const configured = settings.get('core.hookspath')
  const folder = configured?.startsWith('~/')
    ? join(homedir(), configured.slice(2))
    : resolve(repository.workTree, configured || join(repository.commonDir, 'hooks'))
  return HOOKS.flatMap((name) => {
    const file = join(folder, name)
    return isProgram(file) ? { name, file } : []
  })
}

function isProgram(file: string): boolean {
  try {
    const found = statSync(file)
    return found.isFile() && (found.mode & 0o111) !== 0
  } catch {
    // The file is missing, or its path is invalid.
    return false
  }
}

export function describeHooks(
  hooks: readonly Hook[],
  { workTree }: UserRepository,
  hasRun: (name: string) => boolean,
): HookReport[] {
  return hooks.map(({ name, file }) => {
    const below = relative(workTree, file)
    return { name, path: below.startsWith('..') ? file : below, hasRun: hasRun(name) }
  })
}

/** Runs the hooks that precede a commit, on an index of exactly the files to commit; returns the message that they leave. */
export async function runHooksBefore(
  hooks: readonly Hook[],
  commit: {
    repository: UserRepository
    run: RunHook
    author: { name: string; email: string }
    message: string
    index: Buffer
    /** Throws if this index does not have the same files. */
    check(index: Buffer): Promise<void>
  },
): Promise<string> {
  const { repository, run, author, message, index, check } = commit
  if (hooks.length === 0) return message
  const { workTree, gitDir } = repository
  const indexFile = join(gitDir, `waymark-index-${randomBytes(6).toString('hex')}`)
  // Git's own path, because some hooks read it directly.
  const messageFile = join(gitDir, 'COMMIT_EDITMSG')
  const variables = {
    GIT_INDEX_FILE: indexFile,
    GIT_EDITOR: ':',
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
  }
  const args: Record<HookName, string[] | null> = {
    'pre-commit': [],
    'prepare-commit-msg': [messageFile, 'message'],
    'commit-msg': [messageFile],
    'post-commit': null,
  }
  try {
    await write(indexFile, index)
    await write(messageFile, Buffer.from(`${message.trimEnd()}\n`))
    for (const { name, file } of hooks) {
      const given = args[name]
      if (given === null) continue
      const { code, output } = await run({ argv: [file, ...given], cwd: workTree, variables })
      if (code !== 0) throw new CommitRefused(refusal(name, code, output))
    }
    const then = await readSmall(indexFile, index.length * 2 + MAX_ADDED_BYTES)
    if (!then)
      throw new CommitRefused(
        "A hook left an index that can't be read, so nothing was committed. Fix the hook, or commit without hooks.",
      )
    await check(then)
    const changed = (await readSmall(messageFile, MAX_MESSAGE_BYTES))?.toString().trim()
    if (!changed)
      throw new CommitRefused(
        'A hook left the message empty, too long or unreadable, so nothing was committed. Fix the hook, or commit without hooks.',
      )
    return changed
  } finally {
    for (const file of [indexFile, `${indexFile}.lock`]) await rm(file, { force: true, recursive: true })
  }
}

/** Runs post-commit and, like git, ignores its result. True if it ended by itself. */
export async function runHooksAfter(
  hooks: readonly Hook[],
  { workTree }: UserRepository,
  run: RunHook,
): Promise<boolean> {
  const after = hooks.find(({ name }) => name === 'post-commit')
  if (!after) return false
  const program = { argv: [after.file], cwd: workTree, variables: { GIT_EDITOR: ':' } }
  return await run(program).then(
    ({ code }) => code !== null,
    () => false,
  )
}

function refusal(name: HookName, code: number | null, output: string): string {
  const how = code === null ? 'was killed or took too long' : `exited with ${code}`
  const said = output.trim().slice(-MAX_SHOWN)
  return `The hook ${name} ${how}, so nothing was committed.${said === '' ? '' : `\n${said}`}`
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/** Replaces the file: an existing one could be a link, or a pipe that would block the server. */
async function write(path: string, bytes: Buffer): Promise<void> {
  const refuse = () => {
    throw new CommitRefused(`${path} can't be written. Use git commit instead.`)
  }
  await rm(path, { force: true }).catch(refuse)
  const handle = await open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o644).catch(refuse)
  try {
    await handle.writeFile(bytes)
  } finally {
    await handle.close()
  }
}
