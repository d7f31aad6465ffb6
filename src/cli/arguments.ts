import { relative, resolve, sep } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { COPY } from './connect.ts'
import { configAbove } from './options.ts'
import { CommandError } from './output.ts'

/** What commands are given. */

export const SHORT_ID = 10

/** A checkpoint's id, or how it begins. */
export function checkpointId(text: string): string {
  const id = text.toLowerCase()
  if (/^[0-9a-f]{7,40}$/.test(id)) return id
  throw new InvalidArgumentError(
    'It is not the id of a checkpoint: 7 digits of it at least, as `waymark checkpoints` shows them.',
  )
}

/** A path as the person sees it from where they are, seen from the project. */
export function projectPath(flags: Record<string, unknown>, given: string): string {
  // In quotes: bytes that are no text, as they are shown.
  if (given.startsWith('"')) return given
  const { project } = configAbove(flags)
  const absolute = resolve(process.env.INIT_CWD ?? process.cwd(), given)
  const copy = COPY.exec(absolute)
  // Seen from the working copy that it lies in, if it does.
  const root = copy ? absolute.slice(0, copy.index + copy[0].length) : project
  const path = relative(root, absolute)
  if (path === '') throw new CommandError('that is the whole project; leave --path out')
  if (path === '..' || path.startsWith(`..${sep}`)) throw new CommandError(`${given} is outside the project`)
  return path.split(sep).join('/')
}

export function collect(value: string, before: string[] = []): string[] {
  return [...before, value]
}

export function wholeNumber(
  text: string,
  _before?: unknown,
  why = 'It must be a whole number from 1 on.',
): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError(why)
  return number
}

export function eventNumber(text: string): number {
  return wholeNumber(text, null, 'An event is a whole number from 1 on, as `waymark log` shows them.')
}
