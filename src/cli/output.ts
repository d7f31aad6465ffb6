/** A mistake of the person's, or a state they can mend: said in one line. */
export class CommandError extends Error {}

const isTerminal = () => process.stderr.isTTY

/** Progress on standard error, on one line that is rewritten; nothing when it is not a terminal. */
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

function styled(code: string, text: string): string {
  return process.stdout.isTTY ? `\u001b[${code}m${text}\u001b[0m` : text
}

// oxlint-disable-next-line no-control-regex -- these are what is looked for
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Model output may hold anything; on a terminal its control characters must not act, nor turn the text around. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd')
}

/** JSON for programs. On a terminal, characters that could steer it are written as escapes, which mean the same. */
export function printJson(value: unknown): void {
  printJsonText(JSON.stringify(value, null, 2))
}

export function printJsonText(text: string): void {
  console.log(process.stdout.isTTY ? text.replace(UNPRINTABLE, escaped) : text)
}

function escaped(char: string): string {
  // Line feeds of the layout are not in a string.
  return char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
}

/** A time as the person's clock shows it. */
export function localTime(iso: string): string {
  const at = new Date(iso)
  const two = (number: number) => String(number).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}
