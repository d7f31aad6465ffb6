/**
 * Lists the paths that match the typed text, best match first: names that start with it, then names and paths that contain
 * it, then paths that contain its letters in the same order.
 */
export function matchPaths(paths: readonly string[], typed: string, limit: number): string[] {
  const wanted = typed.toLowerCase()
  if (wanted === '') return paths.slice(0, limit)
  const ranked: { path: string; rank: number }[] = []
  for (const path of paths) {
    const rank = rankOf(path.toLowerCase(), wanted)
    if (rank !== null) ranked.push({ path, rank })
  }
  ranked.sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
  return ranked.slice(0, limit).map(({ path }) => path)
}

function rankOf(path: string, wanted: string): number | null {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (name.startsWith(wanted)) return 0
  if (path.startsWith(wanted)) return 1
  if (name.includes(wanted)) return 2
  if (path.includes(wanted)) return 3
  return hasLettersOf(path, wanted) ? 4 : null
}

function hasLettersOf(path: string, wanted: string): boolean {
  let at = 0
  for (const letter of wanted) {
    at = path.indexOf(letter, at) + 1
    if (at === 0) return false
  }
  return true
}
