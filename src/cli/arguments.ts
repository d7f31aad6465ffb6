import { relative, resolve, sep } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { callerFolder } from '../config.ts'
import { COPY } from './connect.ts'
import { configAbove } from './options.ts'
import { CommandError } from './output.ts'

/** Parsers for command arguments. */

export const SHORT_ID = 10

/** A checkpoint id or its prefix. */
export function checkpointId(text: string): string {
  const id = text.toLowerCase()
  if (/^[0-9a-f]{7,40}$/.test(id)) return id
  throw new InvalidArgumentError(
    'Not a checkpoint id. Give at least 7 hex digits, as `waymark checkpoints` shows them.',
  )
}

/** Converts a path relative to the current folder into one relative to the project. */
export function projectPath(flags: Record<string, unknown>, given: string): string {
  // A quoted path holds bytes that are not UTF-8, in the form that listings show.
  if (given.startsWith('"')) return given
  const { project } = configAbove(flags)
  const absolute = resolve(callerFolder(), given)
  const copy = COPY.exec(absolute)
  // Inside a fork's working copy, paths are relative to that copy.
  const root = copy ? absolute.slice(0, copy.index + copy[0].length) : project
  const path = relative(root, absolute)
  if (path === '') throw new CommandError('--path names the whole project; omit --path instead')
  if (path === '..' || path.startsWith(`..${sep}`)) throw new CommandError(`${given} is outside the project`)
  return path.split(sep).join('/')
}

export function collect(value: string, before: string[] = []): string[] {
  return [...before, value]
}

export function wholeNumber(
  text: string,
  _before?: unknown,
  why = 'Expected a whole number of at least 1.',
): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError(why)
  return number
}

export function eventNumber(text: string): number {
  return wholeNumber(text, null, 'Expected an event number, as `waymark log` shows them.')
}
