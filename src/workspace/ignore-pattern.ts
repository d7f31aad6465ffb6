/**
 * Patterns as in .gitignore, matched as git's wildmatch does. A pattern is compiled to a list of steps that advance through
 * the path together, one character at a time: the cost is at most steps × characters for any pattern. Characters are bytes.
 */
export interface IgnorePattern {
  isNegated: boolean
  matches(path: string, name: string, isFolder: boolean): boolean
}

/** A step matches one character (`set`), or any number of characters (`star`). */
type Step =
  | { type: 'set'; has: (byte: number) => boolean }
  /** `*` stays for any character but a slash. `**` stays for any character, and may skip the slash after it. */
  | { type: 'star'; crossesSlash: boolean; skips: boolean }

const SLASH = 47
/** How a step was reached. A star that has matched a character needs its slash, so it can no longer skip it. */
const ENTERED = 1
const STAYED = 2

/** Returns null for a line without a pattern, or with one that matches nothing. */
export function parseIgnorePattern(line: string): IgnorePattern | null {
  let text = trimEnd(line)
  if (text === '' || text.startsWith('#')) return null
  const isNegated = text.startsWith('!')
  if (isNegated) text = text.slice(1)
  const onlyFolders = text.endsWith('/')
  if (onlyFolders) text = text.slice(0, -1)
  if (text === '') return null
  const isAnchored = text.includes('/')
  const pattern = isAnchored && text.startsWith('/') ? text.slice(1) : text
  const test = compile(pattern, isAnchored)
  if (!test) return null
  return {
    isNegated,
    matches: (path, name, isFolder) => (isFolder || !onlyFolders) && test(isAnchored ? path : name),
  }
}

/** Removes trailing spaces that no backslash escapes, and the carriage return of a CRLF line ending. */
function trimEnd(line: string): string {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line
  let end = text.length
  while (end > 0 && text[end - 1] === ' ') end--
  let backslashes = 0
  while (end - 1 - backslashes >= 0 && text[end - 1 - backslashes] === '\\') backslashes++
  return end < text.length && backslashes % 2 === 1 ? text.slice(0, end + 1) : text.slice(0, end)
}

/** With `isPath`, a slash is special. */
export function compile(pattern: string, isPath: boolean): ((text: string) => boolean) | null {
  if (!/[*?[\\]/.test(pattern)) return (text) => text === pattern
  // By far the most common form, such as *.log.
  if (/^\*[^*?[\\/]*$/.test(pattern)) {
    const end = pattern.slice(1)
    return (text) => text.endsWith(end) && !(isPath && text.slice(0, text.length - end.length).includes('/'))
  }
  const steps = stepsOf(pattern, isPath)
  return steps && ((text) => run(steps, text))
}

function stepsOf(pattern: string, isPath: boolean): Step[] | null {
  const steps: Step[] = []
  const bytes = Buffer.from(pattern, 'latin1')
  let at = 0
  while (at < bytes.length) {
    const char = pattern[at]
    if (char === '*') {
      const from = at
      while (pattern[at] === '*') at++
      steps.push(star(pattern, from, at, isPath))
    } else if (char === '[') {
      const bracket = bracketAt(bytes, at, isPath)
      if (!bracket) return null
      steps.push({ type: 'set', has: bracket.has })
      at = bracket.end
    } else if (char === '?') {
      steps.push({ type: 'set', has: isPath ? (byte) => byte !== SLASH : () => true })
      at++
    } else {
      const escaped = char === '\\' ? at + 1 : at
      const wanted = bytes[escaped]
      // A backslash with nothing after it matches nothing.
      if (wanted === undefined) return null
      steps.push({ type: 'set', has: (byte) => byte === wanted })
      at = escaped + 1
    }
  }
  return steps
}

function star(pattern: string, from: number, to: number, isPath: boolean): Step {
  if (!isPath) return { type: 'star', crossesSlash: true, skips: false }
  // Git compares the text before the first wildcard separately and matches the rest as if it began there.
  const isBegun = from === pattern.search(/[*?[\\]/) || pattern[from - 1] === '/'
  const isEnded = to === pattern.length || pattern[to] === '/' || pattern.startsWith('\\/', to)
  const crossesSlash = to - from > 1 && isBegun && isEnded
  return { type: 'star', crossesSlash, skips: crossesSlash && pattern[to] === '/' }
}

/** Tracks the steps that may come next after each character. */
function run(steps: readonly Step[], text: string): boolean {
  let now = new Uint8Array(steps.length + 1)
  let next = new Uint8Array(steps.length + 1)
  enter(steps, now, 0)
  for (let at = 0; at < text.length; at++) {
    const byte = text.charCodeAt(at)
    let isAlive = false
    next.fill(0)
    for (let index = 0; index < steps.length; index++) {
      if (now[index] === 0) continue
      const step = steps[index] as Step
      if (step.type === 'set') {
        if (!step.has(byte)) continue
        enter(steps, next, index + 1)
      } else {
        if (byte === SLASH && !step.crossesSlash) continue
        next[index] = (next[index] ?? 0) | STAYED
        enter(steps, next, index + 1)
      }
      isAlive = true
    }
    if (!isAlive) return false
    ;[now, next] = [next, now]
  }
  return now[steps.length] !== 0
}

/** A star may match nothing, and one that is followed by a slash may match no folder. */
function enter(steps: readonly Step[], states: Uint8Array, from: number): void {
  const waiting = [from]
  for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
    if (((states[index] ?? 0) & ENTERED) !== 0) continue
    states[index] = (states[index] ?? 0) | ENTERED
    const step = steps[index]
    if (step?.type !== 'star') continue
    waiting.push(index + 1)
    if (step.skips) waiting.push(index + 2)
  }
}

interface Bracket {
  has: (byte: number) => boolean
  end: number
}

/** A set of characters such as [a-z], or null when it is not closed or names an unknown class. */
function bracketAt(bytes: Uint8Array, begin: number, isPath: boolean): Bracket | null {
  const table = new Uint8Array(256)
  let at = begin + 1
  const isNegated = bytes[at] === 33 || bytes[at] === 94
  if (isNegated) at++
  let before = 0
  let isFirst = true
  for (;;) {
    let byte = bytes[at]
    if (byte === undefined) return null
    if (byte === 93 && !isFirst) break
    isFirst = false
    const following = bytes[at + 1]
    if (byte === 92) {
      byte = bytes[++at]
      if (byte === undefined) return null
      table[byte] = 1
      before = byte
    } else if (byte === 45 && before !== 0 && following !== undefined && following !== 93) {
      let last = bytes[++at]
      if (last === 92) last = bytes[++at]
      if (last === undefined) return null
      for (let one = before; one <= last; one++) table[one] = 1
      before = 0
    } else if (byte === 91 && following === 58) {
      const close = bytes.indexOf(93, at + 2)
      if (close < 0) return null
      if (close - at < 3 || bytes[close - 1] !== 58) {
        table[byte] = 1
        before = byte
      } else {
        const isIn = classes[Buffer.from(bytes.subarray(at + 2, close - 1)).toString('latin1')]
        if (!isIn) return null
        for (let one = 0; one < 128; one++) if (isIn.test(String.fromCharCode(one))) table[one] = 1
        before = 0
        at = close
      }
    } else {
      table[byte] = 1
      before = byte
    }
    at++
  }
  const has = (byte: number) => (table[byte] === 1) !== isNegated && !(isPath && byte === SLASH)
  return { has, end: at + 1 }
}

const classes: Partial<Record<string, RegExp>> = {
  alnum: /[A-Za-z0-9]/,
  alpha: /[A-Za-z]/,
  blank: /[ \t]/,
  // oxlint-disable-next-line no-control-regex -- that is the class
  cntrl: /[\0-\x1f\x7f]/,
  digit: /[0-9]/,
  graph: /[!-~]/,
  lower: /[a-z]/,
  print: /[ -~]/,
  punct: /[!-/:-@[-`{-~]/,
  space: /[ \t\n\v\f\r]/,
  upper: /[A-Z]/,
  xdigit: /[A-Fa-f0-9]/,
}
