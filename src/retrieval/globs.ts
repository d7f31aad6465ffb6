/** Whether a path fits one of these globs: `*` within a folder, `**` across folders, `?` one character. */
export function fitsAny(path: string, globs: readonly string[]): boolean {
  return globs.some((glob) => fitsFolders(path.split('/'), glob.split('/')))
}

/** Folder by folder; in time that grows with both lengths and no faster, whatever the glob. */
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

/** The usual way to match wildcards: on a mismatch the last one takes one more. */
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
