/** True if a path matches one of these globs: `*` within a folder, `**` across folders, `?` one character. */
export function fitsAny(path: string, globs: readonly string[]): boolean {
  return globs.some((glob) => fitsFolders(path.split('/'), glob.split('/')))
}

/** Matches folder by folder; the time is bounded by the product of both lengths for any glob. */
function fitsFolders(names: readonly string[], globs: readonly string[]): boolean {
  return fits(
    names,
    globs,
    (glob) => glob === '**',
    (name, glob) => fitsName(name, glob),
  )
}

function fitsName(name: string, glob: string): boolean {
  return fits(
    name.split(''),
    glob.split(''),
    (one) => one === '*',
    (character, one) => one === '?' || one === character,
  )
}

/** The usual wildcard matching: on a mismatch, the last wildcard takes one more item. */
function fits(
  items: readonly string[],
  pattern: readonly string[],
  isWild: (one: string) => boolean,
  isSame: (item: string, one: string) => boolean,
): boolean {
  let [at, next] = [0, 0]
  let wild: { next: number; at: number } | null = null
  while (at < items.length) {
    const one = pattern[next]
    if (one !== undefined && isWild(one)) {
      wild = { next: next + 1, at }
      next++
    } else if (one !== undefined && isSame(items[at] ?? '', one)) {
      at++
      next++
    } else if (wild) {
      wild.at++
      at = wild.at
      next = wild.next
    } else return false
  }
  return pattern.slice(next).every(isWild)
}
