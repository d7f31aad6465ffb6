/**
 * Names on disk are bytes, and not always text. In this folder a path is a byte string: one character a byte, so that
 * it can be a key, sorts as git sorts, and loses nothing. People see it as text.
 */
export type BytePath = string

const ASCII = /^\p{ASCII}*$/u

/** As the file system takes it. */
export function onDisk(path: BytePath): string | Buffer {
  return ASCII.test(path) ? path : Buffer.from(path, 'latin1')
}

export function toBytePath(text: string): BytePath {
  return ASCII.test(text) ? text : Buffer.from(text).toString('latin1')
}

/**
 * As people see it. What is not text, and what could be taken for it, stands in quotes with its bytes in octal, the way
 * git prints such names.
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

/** The path that people see as this. */
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
