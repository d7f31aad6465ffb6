import { WaymarkError } from '../protocol/errors.ts'

/** Normalizes a path; refuses one that leads out of the project. */
export function cleanPath(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  if (path.startsWith('/') || parts.includes('..') || parts.length === 0) {
    throw new WaymarkError(
      'invalid_request',
      `The path must be relative to the project folder and stay inside it: ${path}`,
    )
  }
  return parts.join('/')
}
