/** Whether a path fits one of these globs: `*` within a folder, `**` across folders, `?` one character. */
export function fitsAny(path: string, globs: readonly string[]): boolean {
  return globs.some((glob) => patternOf(glob).test(path))
}

function patternOf(glob: string): RegExp {
  const source = glob
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('**/', '\u0001')
    .replaceAll('**', '\u0002')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('\u0001', '(?:.*/)?')
    .replaceAll('\u0002', '.*')
  return new RegExp(`^${source}$`)
}
