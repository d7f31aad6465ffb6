import type { Entry, Transcript } from './transcript.ts'

/**
 * The transcript as it was after event `after`. An entry that reaches across the cut can't be taken back by half, so it
 * goes as a whole with all behind it, and `head` then says where to read on from: it may be before `after`.
 */
export function cutTranscript(transcript: Transcript, after: number): Transcript {
  if (after >= transcript.head) return transcript
  const keep = transcript.entries.findIndex((entry) => entry.at > after || entry.upTo > after)
  const entries = keep < 0 ? transcript.entries : transcript.entries.slice(0, keep)
  const across = keep < 0 ? undefined : transcript.entries[keep]
  const head = across && across.at <= after ? across.at - 1 : after
  return { ...transcript, head, entries, title: titleOf(entries) }
}

/** The last title among these entries. Titles are marks too, so a cut takes them back with the rest. */
export function titleOf(entries: readonly Entry[]): string | null {
  const titled = entries.findLast((entry) => entry.type === 'mark' && entry.mark.kind === 'title')
  return titled?.type === 'mark' && titled.mark.kind === 'title' ? titled.mark.title : null
}
