import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { join } from 'node:path'

/**
 * The only place that runs git. Configuration can make git execute programs: filters, hooks, fsmonitor, pagers, ssh
 * commands, credential helpers, and fetches of missing objects. A project and a model can write configuration, so git only
 * ever reads Waymark's own:
 *
 * - Waymark creates the git directory and passes it explicitly: no discovery, and `commondir` and alternates are overridden
 *   (`commit-settings.ts` passes the user's, for `git config`, which executes nothing);
 * - global and system configuration are off, and the command line also disables every setting that executes something;
 * - every transport is refused, so that git can't reach a promisor remote: git 2.39 has no option against lazy fetches;
 * - the environment contains nothing else.
 */

export class GitFailed extends Error {
  /** The exit code; null if git was killed or could not be started. */
  readonly code: number | null
  constructor(message: string, code: number | null = null) {
    super(message)
    this.code = code
  }
}

const MAX_OUTPUT = 256 * 1024 * 1024

const SAFE_SETTINGS = Object.entries({
  'core.fsmonitor': 'false',
  'core.untrackedCache': 'false',
  'core.hooksPath': '/dev/null',
  'core.attributesFile': '/dev/null',
  'core.excludesFile': '/dev/null',
  'core.sshCommand': 'false',
  'core.askPass': 'false',
  'core.editor': 'false',
  'core.pager': 'cat',
  'core.alternateRefsCommand': 'false',
  'credential.helper': '',
  'protocol.allow': 'never',
  'gpg.program': 'false',
  'log.showSignature': 'false',
  'submodule.recurse': 'false',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`])

export interface GitCall {
  /** A git directory that Waymark created. */
  gitDir: string
  args: readonly string[]
  /** Search path for `git`. */
  path: string
  /** The person's home folder. Default: none. */
  home?: string
  input?: string | Buffer
  /** Author and committer of a commit. */
  person?: { name: string; email: string; at: string }
  /** Default: the git directory. */
  cwd?: string
  /** The object directory, if it isn't in the git directory. */
  objects?: string
  /** The files to compare with. The git directory holds a copy of their index. */
  workTree?: string
  timeoutMs?: number
  maxOutput?: number
}

/** Runs git to completion and returns its output. */
export async function runGit(call: GitCall): Promise<Buffer> {
  const { gitDir, args, input, cwd = gitDir, timeoutMs, maxOutput = MAX_OUTPUT } = call
  return await new Promise((resolve, reject) => {
    const child = execFile(
      'git',
      [...SAFE_SETTINGS, '--no-pager', '--literal-pathspecs', ...args],
      {
        env: environment(call),
        cwd,
        encoding: 'buffer',
        maxBuffer: maxOutput,
        killSignal: 'SIGKILL',
        ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
      },
      (error, stdout, stderr) => {
        if (!error) return resolve(stdout)
        const name = args.find((arg) => !arg.startsWith('-') && !arg.includes('='))
        const code = typeof error.code === 'number' ? error.code : null
        reject(new GitFailed(`git ${name}: ${stderr.toString().trim() || error.message}`, code))
      },
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(input ?? '')
  })
}

function environment(
  call: Pick<GitCall, 'gitDir' | 'path' | 'home' | 'objects' | 'workTree' | 'person'>,
): Record<string, string> {
  const { gitDir, path, home = '/nonexistent', objects = join(gitDir, 'objects'), workTree, person } = call
  const who = (role: string) =>
    person
      ? {
          [`GIT_${role}_NAME`]: person.name,
          [`GIT_${role}_EMAIL`]: person.email,
          [`GIT_${role}_DATE`]: person.at,
        }
      : {}
  return {
    ...who('AUTHOR'),
    ...who('COMMITTER'),
    PATH: path,
    LC_ALL: 'C',
    HOME: home,
    GIT_DIR: gitDir,
    GIT_COMMON_DIR: gitDir,
    GIT_OBJECT_DIRECTORY: objects,
    ...(workTree === undefined ? {} : { GIT_WORK_TREE: workTree }),
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_GRAFT_FILE: '/dev/null',
    GIT_ALLOW_PROTOCOL: 'none',
    GIT_NO_LAZY_FETCH: '1',
    GIT_SSH_COMMAND: 'false',
    GIT_ASKPASS: 'false',
    GIT_EDITOR: 'false',
    GIT_PAGER: 'cat',
  }
}

export interface Git {
  /** Runs git on this repository and returns its output. */
  run(repository: string, args: readonly string[], input?: string): Promise<Buffer>
  /** The object's type and bytes, or null if it doesn't exist. */
  read(oid: string): Promise<{ type: string; body: Buffer } | null>
  close(): void
}

/** `store` is the repository that holds the objects. */
export function createGit({ store, path }: { store: string; path: string }): Git {
  let reader: Reader | null = null

  return {
    run: (repository, args, input) =>
      runGit({ gitDir: repository, args, path, ...(input === undefined ? {} : { input }) }),
    read(oid) {
      if (!reader || reader.hasEnded()) {
        const env = environment({ gitDir: store, path })
        reader = createReader(spawn('git', [...SAFE_SETTINGS, 'cat-file', '--batch'], { env, cwd: store }))
      }
      return reader.read(oid)
    },
    close() {
      reader?.close()
      reader = null
    },
  }
}

type Found = { type: string; body: Buffer } | null

interface Reader {
  read(oid: string): Promise<Found>
  hasEnded(): boolean
  close(): void
}

/** One `cat-file` process that replies in request order. */
function createReader(child: ChildProcessWithoutNullStreams): Reader {
  const waiting: { resolve(found: Found): void; reject(error: Error): void }[] = []
  let pieces: Buffer[] = []
  let have = 0
  let ended: Error | null = null
  let errors = ''

  function end(error: Error): void {
    ended ??= error
    for (const waiter of waiting.splice(0)) waiter.reject(ended)
  }

  /** The header of the current reply, once its line is complete. */
  let head: { type: string; size: number; from: number } | null = null

  function take(): void {
    while (waiting.length > 0 && have > 0) {
      if (!head) {
        // Join only to look for a header: a large object arrives in many pieces.
        const all = joinPieces()
        const line = all.indexOf(10)
        if (line < 0) return
        const [, type = '', length] = all.toString('latin1', 0, line).split(' ')
        // "missing" has no length; a found object is followed by its bytes and a line feed.
        head = { type, size: length === undefined ? -1 : Number(length), from: line + 1 }
      }
      const { type, size, from } = head
      const next = size < 0 ? from : from + size + 1
      if (have < next) return
      const all = joinPieces()
      const body = size < 0 ? null : Buffer.from(all.subarray(from, from + size))
      pieces = [all.subarray(next)]
      have = all.length - next
      head = null
      waiting.shift()?.resolve(body ? { type, body } : null)
    }
  }

  function joinPieces(): Buffer {
    if (pieces.length !== 1) pieces = [Buffer.concat(pieces)]
    return pieces[0] ?? Buffer.alloc(0)
  }

  child.stdout.on('data', (bytes: Buffer) => {
    pieces.push(bytes)
    have += bytes.length
    take()
  })
  child.stderr.on('data', (bytes: Buffer) => {
    errors = `${errors}${bytes.toString()}`.slice(-2000)
  })
  child.stdin.on('error', () => {})
  child.on('error', (error) => end(new GitFailed(`git can't be run: ${error.message}`)))
  child.on('close', () => end(new GitFailed(`git cat-file ended: ${errors.trim()}`)))
  return {
    read(oid) {
      return new Promise((resolve, reject) => {
        if (ended) return reject(ended)
        waiting.push({ resolve, reject })
        child.stdin.write(`${oid}\n`)
      })
    },
    hasEnded: () => ended !== null,
    close() {
      end(new GitFailed('closed'))
      child.stdin.end()
      child.kill()
    },
  }
}
