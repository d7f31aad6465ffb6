import { type BytePath, joined, toBytePath } from './byte-path.ts'
import { type IgnorePattern, parseIgnorePattern } from './ignore-pattern.ts'

/** Why an entry is not in a checkpoint (W3). */
export type LeftOut =
  | 'hidden'
  | 'gitignore'
  | 'default'
  | 'setting'
  | 'size'
  | 'unreadable'
  | 'special'
  | 'repository'

const FOLDERS = new Set(['dist', 'build', 'target', 'node_modules', 'venv', '.venv', '__pycache__'])
const FILES = /\.(pyc|pyo|so|dylib|dll)$/

/** The rules for the direct entries of one folder: its own .gitignore and those above it. */
export interface FolderRules {
  folder: BytePath
  text: string | null
  matcher: Matcher | null
  parent: FolderRules | null
}

export interface IgnoreRules {
  /** Returns the rules of a folder with this .gitignore, or `before` itself when nothing has changed. */
  below(
    parent: FolderRules | null,
    folder: BytePath,
    text: string | null,
    before: FolderRules | null,
  ): FolderRules
  /** Why the entry is left out, or null. `inside` is why its folder is left out, if we scan it anyway. */
  reason(rules: FolderRules, name: BytePath, isFolder: boolean, inside: LeftOut | null): LeftOut | null
  /** True if a left-out folder may contain entries that `include` names. */
  mayHold(path: BytePath): boolean
}

/** `include` and `exclude` are patterns as in a .gitignore at the root. `exclude` wins when both match. */
export function createIgnoreRules(options: {
  include: readonly string[]
  exclude: readonly string[]
}): IgnoreRules {
  const included = matcherOf(options.include.map(toBytePath).join('\n'))
  const excluded = matcherOf(options.exclude.map(toBytePath).join('\n'))
  const prefixes = options.include.map(toBytePath).map(literalPrefix)

  return {
    below(parent, folder, text, before) {
      if (before?.parent === parent && before.text === text && before.folder === folder) return before
      return { folder, text, matcher: text === null ? null : matcherOf(text), parent }
    },
    reason(rules, name, isFolder, inside) {
      if (name.toLowerCase() === '.git') return 'repository'
      const path = joined(rules.folder, name)
      if (excluded?.isAtOrBelow(path, isFolder)) return 'setting'
      if (included?.isAtOrBelow(path, isFolder)) return null
      if (inside) return inside
      if (name.startsWith('.')) return 'hidden'
      if (isFolder ? FOLDERS.has(name) : FILES.test(name)) return 'default'
      return isGitignored(rules, path, isFolder) ? 'gitignore' : null
    },
    mayHold(path) {
      return prefixes.some(
        (prefix) => prefix === path || prefix.startsWith(`${path}/`) || path.startsWith(`${prefix}/`),
      )
    },
  }
}

/** The innermost .gitignore with a matching pattern decides. */
function isGitignored(rules: FolderRules, path: BytePath, isFolder: boolean): boolean {
  for (let at: FolderRules | null = rules; at; at = at.parent) {
    if (!at.matcher) continue
    const relative = at.folder === '' ? path : path.slice(at.folder.length + 1)
    const isIgnored = at.matcher.decide(relative, isFolder)
    if (isIgnored !== null) return isIgnored
  }
  return false
}

interface Matcher {
  /** True if the last pattern that matches the path itself ignores it; null when no pattern matches. */
  decide(path: BytePath, isFolder: boolean): boolean | null
  /** True if the patterns match the path or a folder above it. */
  isAtOrBelow(path: BytePath, isFolder: boolean): boolean
}

/** A project may have any number of patterns; those beyond this limit have no effect, so their files are captured. */
const MAX_PATTERNS = 5000
const MAX_PATTERN_BYTES = 4096

function matcherOf(text: string): Matcher | null {
  // A byte order mark is not a part of the first pattern.
  const lines = (text.startsWith('\u00ef\u00bb\u00bf') ? text.slice(3) : text).split('\n')
  const patterns: IgnorePattern[] = []
  for (const line of lines) {
    if (patterns.length >= MAX_PATTERNS) break
    const pattern = line.length > MAX_PATTERN_BYTES ? null : parseIgnorePattern(line)
    // The last pattern decides, so it is tried first.
    if (pattern) patterns.unshift(pattern)
  }
  if (patterns.length === 0) return null
  function decide(path: BytePath, isFolder: boolean): boolean | null {
    const name = path.slice(path.lastIndexOf('/') + 1)
    const found = patterns.find((pattern) => pattern.matches(path, name, isFolder))
    return found ? !found.isNegated : null
  }
  return {
    decide,
    isAtOrBelow(path, isFolder) {
      for (let slash = path.indexOf('/'); slash >= 0; slash = path.indexOf('/', slash + 1)) {
        if (decide(path.slice(0, slash), true)) return true
      }
      return decide(path, isFolder) ?? false
    },
  }
}

/** The folders that a pattern names before its first wildcard. */
function literalPrefix(pattern: string): BytePath {
  const parts = pattern.replace(/^\//, '').split('/')
  const wild = parts.findIndex((part) => /[*?[\\]/.test(part))
  return (wild < 0 ? parts : parts.slice(0, wild)).join('/').replace(/\/$/, '')
}
