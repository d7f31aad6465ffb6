import type { BytePath } from './byte-path.ts'

export function nameOf(path: BytePath): BytePath {
  return path.slice(path.lastIndexOf('/') + 1)
}

export function parentOf(path: BytePath): BytePath {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}
