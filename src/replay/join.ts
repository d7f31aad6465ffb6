import { endRun } from './run.ts'
import type { Entry, Transcript } from './transcript.ts'

/** Joins two parts of a line; the second must start where the first ends. */
export function joinTranscripts(earlier: Transcript, later: Transcript): Transcript {
  if (earlier.head !== later.from - 1) throw new Error(`events ${earlier.head} and ${later.from} do not join`)
  return {
    ...later,
    from: earlier.from,
    title: later.title ?? earlier.title,
    entries: [...interrupted(earlier.entries, later.entries), ...later.entries],
  }
}

/** Ends a run without a terminal frame where the line continues without it, as the reducer does. */
function interrupted(earlier: readonly Entry[], later: readonly Entry[]): readonly Entry[] {
  const index = earlier.findLastIndex((entry) => entry.type === 'run')
  const open = earlier[index]
  if (open?.type !== 'run' || open.endedAt !== null) return earlier
  const end = later.find(
    (entry) => entry.type === 'run' || (entry.type === 'mark' && leavesRun(entry.mark.kind)),
  )
  if (!end || end.type === 'message') return earlier
  const run = { ...open, items: [...open.items], upTo: end.at }
  endRun(run, 'incomplete', end.type === 'run' ? end.startedAt : end.timestamp)
  return earlier.with(index, run)
}

function leavesRun(kind: string): boolean {
  return kind === 'forked' || kind === 'cut'
}
