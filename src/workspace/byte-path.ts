/**
 * Names on disk are bytes, and not always valid UTF-8. In this folder a path is a byte string, one character per byte, so
 * that it can be a map key, sorts in git's order and loses nothing. Users see it as text.
 */
export type BytePath = string

const ASCII = /^\p{ASCII}*$/u

/** The path in the form that file system calls take. */
export function onDisk(path: BytePath): string | Buffer {
  return ASCII.test(path) ? path : Buffer.from(path, 'latin1')
}

export function toBytePath(text: string): BytePath {
  return ASCII.test(text) ? text : Buffer.from(text).toString('latin1')
}

/**
 * The path as shown to users. A name that isn't valid UTF-8, or that starts with a quote, is quoted with its bytes in octal,
 * as git prints such names.
 */
export function shownPath(path: BytePath): string {
  if (ASCII.test(path) && !path.startsWith('"')) return path
  const bytes = Buffer.from(path, 'latin1')
  const text = bytes.toString()
  if (!path.startsWith('"') && Buffer.from(text).equals(bytes)) return text
  const quoted = path.replaceAll(/["\\]|[^\u0020-\u007e]/g, (character) =>
    character === '"' || character === '\\' ? `\\${character}` : octal(character),
  )
  return `"${quoted}"`
}

/** The inverse of `shownPath`. */
export function fromShown(text: string): BytePath {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2) return toBytePath(text)
  return toBytePath(text.slice(1, -1)).replaceAll(/\\([0-7]{3}|["\\])/g, (_, code: string) =>
    code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8) & 0xff) : code,
  )
}

export function joined(folder: BytePath, name: BytePath): BytePath {
  return folder === '' ? name : `${folder}/${name}`
}

function octal(character: string): string {
  return `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`
}
