import { delimiter, dirname, join } from 'node:path'
import { isInside } from './paths.ts'

/** Folders of the private home that are kept between commands. */
export const KEPT_FOLDERS = ['.cache', '.npm']

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

/** Of a folder with programs in `bin`, what they need. Settings and keys lie beside these. */
const PARTS = ['lib', 'lib64', 'libexec', 'share', 'include']

/** Folders that are more than one program's own: of these nothing but the entry itself is shown. */
const SHARED = new Set(['', '.local', '.config', '.cache', '.cargo'])

/** The folders of the home that are shown inside: known toolchains, and what the search path leads to. */
export function toolchainsIn(home: string, path: string): string[] {
  const found = new Set(KNOWN.map((name) => join(home, name)))
  for (const entry of path.split(delimiter)) {
    if (entry === home || !isInside(home, entry)) continue
    const below = dirname(entry).slice(home.length + 1)
    for (const folder of SHARED.has(below) ? [entry] : programsAt(entry)) found.add(folder)
  }
  return [...found]
}

/** A folder of programs with what they need beside it. */
export function programsAt(entry: string): string[] {
  return [entry, ...PARTS.map((name) => join(dirname(entry), name))]
}
