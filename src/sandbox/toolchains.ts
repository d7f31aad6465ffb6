import { delimiter, dirname, join } from 'node:path'
import { isInside } from './paths.ts'

/** Folders in a home that builds need, and that hold no secrets. Read-only inside. */
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
  '.sdkman',
  '.bun',
  '.deno',
  'go',
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

/** Where secrets and settings are: never bound as a whole because a program lies in it. */
const NEVER = new Set(['', '.local', '.config', '.cache', '.cargo', '.ssh', '.gnupg', '.aws'])

/** The folders of the home that are shown inside: known toolchains, and what the search path leads to. */
export function toolchainsIn(home: string, path: string): string[] {
  const found = new Set(KNOWN.map((name) => join(home, name)))
  for (const entry of path.split(delimiter)) {
    if (entry === home || !isInside(home, entry)) continue
    const parent = dirname(entry)
    const below = parent === home ? '' : parent.slice(home.length + 1)
    found.add(NEVER.has(below) ? entry : parent)
  }
  return [...found]
}
