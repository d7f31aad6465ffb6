import type { Entry, Transcript } from './transcript.ts'

/**
 * The transcript as it was after event `after`. An entry that spans the cut can't be reverted in part, so it is removed
 * with all entries after it; `head` is then where to continue reading, which may be before `after`.
 */
export function cutTranscript(transcript: Transcript, after: number): Transcript {
  if (after >= transcript.head) return transcript
  let { entries } = transcript
  let head = after
  for (;;) {
    const keep = entries.findIndex((entry) => entry.at > head || entry.upTo > head)
    const across = entries[keep]
    if (!across) return { ...transcript, head, entries, title: titleOf(entries) }
    entries = entries.slice(0, keep)
    // Later events may have changed entries before this one; those changes are reverted too.
    head = Math.min(head, across.at - 1)
  }
}

/** The last title among these entries. Titles are marks too, so a cut also reverts them. */
export function titleOf(entries: readonly Entry[]): string | null {
  const titled = entries.findLast((entry) => entry.type === 'mark' && entry.mark.kind === 'title')
  return titled?.type === 'mark' && titled.mark.kind === 'title' ? titled.mark.title : null
}
