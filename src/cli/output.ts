let sink: ((text: string) => void) | null = null

/** Sends messages to `write` instead of standard output, until the returned function is called. */
export function redirectMessages(write: (text: string) => void): () => void {
  sink = write
  return () => {
    sink = null
  }
}

/** Prints a line that is no result of the command: to standard error, or where messages are redirected. */
export function say(text: string): void {
  if (sink) sink(`${text}\n`)
  else console.error(text)
}

/** A usage error or a state that the user can fix; printed as one line without a stack. */
export class CommandError extends Error {}

const isTerminal = () => process.stderr.isTTY

/** Shows progress on one rewritten line of standard error, if that is a terminal. */
export function showProgress(text: string): void {
  if (isTerminal()) process.stderr.write(`\r\u001b[K${text}`)
}

export function endProgress(): void {
  if (isTerminal()) process.stderr.write('\r\u001b[K')
}

export function dim(text: string): string {
  return styled('2', text)
}

export function bold(text: string): string {
  return styled('1', text)
}

export function added(text: string): string {
  return styled('32', text)
}

export function removed(text: string): string {
  return styled('31', text)
}

/** Text in an SGR style, on a terminal. */
export function styled(code: string, text: string): string {
  return process.stdout.isTTY ? `\u001b[${code}m${text}\u001b[0m` : text
}

// oxlint-disable-next-line no-control-regex -- matches control characters on purpose
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Replaces control and bidi characters, so that model output can't control the terminal or reorder text. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd')
}

/** Prints JSON. On a terminal, control characters are written as equivalent JSON escapes. */
export function printJson(value: unknown): void {
  printJsonText(JSON.stringify(value, null, 2))
}

export function printJsonText(text: string): void {
  console.log(process.stdout.isTTY ? text.replace(UNPRINTABLE, escaped) : text)
}

function escaped(char: string): string {
  // Line feeds are layout: inside strings, JSON escapes them.
  return char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? noun : plural}`
}

export function size(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} kB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`
}

/** Formats a time in the local time zone. */
export function localTime(iso: string): string {
  const at = new Date(iso)
  const two = (number: number) => String(number).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}
