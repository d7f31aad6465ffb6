import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const TIMEOUT_MS = 5000
const MOST_BYTES = 4 * 1024 * 1024

/** Files that the user's own git calls changed, seen from the folder. Only looks: no lock, no hook, nothing written. */
export async function dirtyFiles(
  root: string,
  /** What commands see of our environment. */
  environment: Readonly<Record<string, string>>,
): Promise<{ path: string; isDeleted: boolean }[]> {
  const git = async (...args: string[]) => {
    const safe = [
      '-c',
      'core.fsmonitor=false',
      '-c',
      'core.hooksPath=/dev/null',
      '-c',
      'status.renames=false',
    ]
    const env = { ...environment, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' }
    const options = { cwd: root, env, timeout: TIMEOUT_MS, maxBuffer: MOST_BYTES }
    return (await run('git', [...safe, ...args], options)).stdout
  }
  try {
    const prefix = (await git('rev-parse', '--show-prefix')).trim()
    const status = await git('status', '--porcelain=v1', '-z', '--untracked-files=all', '--', '.')
    return status.split('\0').flatMap((entry) => {
      const [state, file] = [entry.slice(0, 2), entry.slice(3)]
      // What ends so is a repository of its own.
      if (entry === '' || file.endsWith('/') || !file.startsWith(prefix)) return []
      return { path: file.slice(prefix.length), isDeleted: state.includes('D') }
    })
  } catch {
    // No repository, no git, or one that takes too long: then nothing is known to be changed.
    return []
  }
}
