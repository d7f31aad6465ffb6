import type { Transcript } from './transcript.ts'

/** Two parts of one line, of which the second begins where the first ends. */
export function joinTranscripts(earlier: Transcript, later: Transcript): Transcript {
  if (earlier.head !== later.from - 1) throw new Error(`events ${earlier.head} and ${later.from} do not join`)
  return {
    ...later,
    from: earlier.from,
    title: later.title ?? earlier.title,
    entries: [...earlier.entries, ...later.entries],
  }
}
