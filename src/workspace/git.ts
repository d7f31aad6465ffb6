import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'

/** Git as we run it: with nobody's settings, hooks or attributes, and never on the user's repository. */

export class GitFailed extends Error {}

const MAX_OUTPUT = 256 * 1024 * 1024

export interface Git {
  /** Runs git on this repository and answers what it printed. */
  run(repository: string, args: readonly string[], input?: string): Promise<Buffer>
  /** The object's type and bytes, or null when there is none. */
  read(oid: string): Promise<{ type: string; body: Buffer } | null>
  close(): void
}

/** `store` is the repository that holds the objects. */
export function createGit(options: { store: string; path: string }): Git {
  let reader: Reader | null = null

  return {
    async run(repository, args, input) {
      return await new Promise((resolve, reject) => {
        const child = execFile(
          'git',
          ['--literal-pathspecs', ...args],
          {
            env: environment(options.path, repository),
            cwd: repository,
            encoding: 'buffer',
            maxBuffer: MAX_OUTPUT,
          },
          (error, stdout, stderr) => {
            if (!error) return resolve(stdout)
            reject(new GitFailed(`git ${args[0]}: ${stderr.toString().trim() || error.message}`))
          },
        )
        child.stdin?.on('error', () => {})
        child.stdin?.end(input ?? '')
      })
    },
    read(oid) {
      if (!reader || reader.hasEnded()) {
        const env = environment(options.path, options.store)
        reader = createReader(spawn('git', ['cat-file', '--batch'], { env, cwd: options.store }))
      }
      return reader.read(oid)
    },
    close() {
      reader?.close()
      reader = null
    },
  }
}

function environment(path: string, repository: string): Record<string, string> {
  return {
    PATH: path,
    LC_ALL: 'C',
    GIT_DIR: repository,
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
  }
}

type Found = { type: string; body: Buffer } | null

interface Reader {
  read(oid: string): Promise<Found>
  hasEnded(): boolean
  close(): void
}

/** One process that answers in the order of the questions. */
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

  /** The head of the answer that is coming in, once its line is there. */
  let head: { type: string; size: number; from: number } | null = null

  function take(): void {
    while (waiting.length > 0 && have > 0) {
      if (!head) {
        // Joined only where a head is looked for: a large object comes in many pieces.
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
  child.on('error', (error) => end(new GitFailed(`git can not be run: ${error.message}`)))
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
