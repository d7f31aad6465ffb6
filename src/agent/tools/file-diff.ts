import { createTwoFilesPatch, structuredPatch } from 'diff'
import type { FileEdit } from './tool.ts'

/** A diff that takes longer is useless: nearly every line has changed. */
const MAX_MS = 300
const MAX_DIFF_CHARACTERS = 64 * 1024

/** Describes an edit of a file. `before` is null for a new file, `after` for a deleted one. */
export function describeEdit(path: string, before: Buffer | null, after: Buffer | null): FileEdit {
  const change = before === null ? 'added' : after === null ? 'deleted' : 'modified'
  const [old, now] = [asText(before), asText(after)]
  if (old === null || now === null) return { path, change, additions: 0, deletions: 0 }
  const options = { context: 3, timeout: MAX_MS }
  const patch = structuredPatch(path, path, old, now, undefined, undefined, options)
  if (!patch) return { path, change, additions: lines(now), deletions: lines(old) }
  const changed = patch.hunks.flatMap((hunk) => hunk.lines)
  const counts = {
    additions: changed.filter((line) => line.startsWith('+')).length,
    deletions: changed.filter((line) => line.startsWith('-')).length,
  }
  const names = [
    before === null ? '/dev/null' : `a/${path}`,
    after === null ? '/dev/null' : `b/${path}`,
  ] as const
  const whole = createTwoFilesPatch(...names, old, now, undefined, undefined, options) ?? ''
  // Remove the line of equal signs, which no diff tool needs.
  const diff = whole.replace(/^=+\n/, '')
  if (diff.length <= MAX_DIFF_CHARACTERS) return { path, change, ...counts, diff }
  const message = `The diff has ${diff.length.toLocaleString('en')} characters and was omitted.`
  return { path, change, ...counts, notices: [{ type: 'truncated', path: 'diff', message }] }
}

/** Returns null when the bytes are not text. */
export function asText(bytes: Buffer | null): string | null {
  if (bytes === null) return ''
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

function lines(text: string): number {
  return text === '' ? 0 : text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
}
