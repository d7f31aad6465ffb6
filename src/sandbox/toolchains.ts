import { delimiter, dirname, join } from 'node:path'
import { isInside } from './paths.ts'

/** Folders of the private home that persist between commands. */
export const KEPT_FOLDERS = ['.cache', '.npm']

/** Folders in a home that builds need and that contain no secrets. Read-only inside the sandbox. */
const KNOWN = [
  '.nvm',
  '.fnm',
  '.volta',
  '.asdf',
  '.pyenv',
  '.rbenv',
  '.rustup',
  '.cargo/bin',
  '.cargo/registry',
  '.cargo/git',
  '.sdkman/candidates',
  '.bun/bin',
  '.bun/install',
  '.deno/bin',
  'go/bin',
  'go/pkg',
  '.local/bin',
  '.local/lib',
  '.local/share/fnm',
  '.local/share/mise',
  '.local/share/pnpm',
  '.local/share/uv',
  '.m2/repository',
  '.gradle/caches',
  '.gradle/wrapper',
]

/** Folders next to `bin` that programs need. Other folders there may contain settings and keys. */
const PARTS = ['lib', 'lib64', 'libexec', 'share', 'include']

/** Folders shared by several programs: only the search path entry itself is shown, nothing next to it. */
const SHARED = new Set(['', '.local', '.config', '.cache', '.cargo'])

/** The folders of the home that the sandbox shows: known toolchains, and those on the search path. */
export function toolchainsIn(home: string, path: string): string[] {
  const found = new Set(KNOWN.map((name) => join(home, name)))
  for (const entry of path.split(delimiter)) {
    if (entry === home || !isInside(home, entry)) continue
    const below = dirname(entry).slice(home.length + 1)
    for (const folder of SHARED.has(below) ? [entry] : programsAt(entry)) found.add(folder)
  }
  return [...found]
}

/** A folder of programs, with the folders next to it that they need. */
export function programsAt(entry: string): string[] {
  return [entry, ...PARTS.map((name) => join(dirname(entry), name))]
}
