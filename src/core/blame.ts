import { diffArrays } from 'diff'
import { linesOf } from '../protocol/lines.ts'

/** Who wrote the lines of a file, worked out from its versions. */
export interface Blame<A> {
  /** The file is now this text; null if it is gone. Lines that are new are the author's. */
  set(text: string | null, author: A): void
  /**
   * Like `set`, for a version that another program or a restore left: if the file had this text before, its lines get back
   * the authors that they had then.
   */
  observe(text: string | null, author: A): void
  text(): string | null
  lines(): readonly A[]
}

/** Larger changes count as a new file: comparing them line by line could take minutes. */
const MAX_EDIT_LENGTH = 1000
const DIFF_MS = 500
const MOST_VERSIONS = 2000

export function createBlame<A>(): Blame<A> {
  let text: string | null = null
  let lines: readonly A[] = []
  const versions = new Map<string, readonly A[]>()

  function set(next: string | null, author: A): void {
    if (next === text) return
    lines = next === null ? [] : authorsOf(text === null ? [] : linesOf(text), lines, linesOf(next), author)
    text = next
    if (next === null) return
    if (versions.size >= MOST_VERSIONS) versions.clear()
    versions.set(next, lines)
  }

  return {
    set,
    observe(next, author) {
      const known = next === null || next === text ? undefined : versions.get(next)
      if (!known) return set(next, author)
      text = next
      lines = known
    },
    text: () => text,
    lines: () => lines,
  }
}

function authorsOf<A>(old: string[], authors: readonly A[], now: string[], author: A): A[] {
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start++
  let end = 0
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end++
  const middle = now.slice(start, now.length - end)
  const before = old.slice(start, old.length - end)
  const kept: A[] = []
  const changes = diffArrays(before, middle, { maxEditLength: MAX_EDIT_LENGTH, timeout: DIFF_MS })
  let at = start
  for (const { added, removed, count } of changes ?? [
    { added: true, removed: false, count: middle.length },
  ]) {
    if (added) for (let index = 0; index < count; index++) kept.push(author)
    else {
      if (!removed) for (const one of authors.slice(at, at + count)) kept.push(one)
      at += count
    }
  }
  return [...authors.slice(0, start), ...kept, ...authors.slice(old.length - end)]
}
