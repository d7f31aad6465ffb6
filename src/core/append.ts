import { isTerminalKind } from '../protocol/frame-kinds.ts'
import type { AppendRefusal } from './ledger.ts'
import type { DraftText } from './seal.ts'

/** A run's state in the ledger. */
export interface RunState {
  /** The segment it writes to. */
  segment: number
  epoch: number
  /** Frames written so far. */
  frames: number
  ended: boolean
}

export interface AppendAttempt {
  runId: string | null
  epoch: number | null
  /** Number of the run's frames sent before these. */
  after: number
  drafts: readonly DraftText[]
}

/** Why these frames may not be appended to the conversation's head segment (L5, L8); null if they may. */
export function refuseAppend(
  headSegment: number | null,
  run: RunState | undefined,
  attempt: AppendAttempt,
): AppendRefusal | null {
  if (headSegment === null) return 'conversation_not_found'
  if (attempt.runId === null) return null
  if (!run) return 'run_not_found'
  if (run.epoch !== attempt.epoch) return 'lease_lost'
  if (run.ended) return 'run_ended'
  if (run.segment !== headSegment) return 'segment_cut'
  // Frames are sent without waiting for each one: if one could not be stored, no later one may be (L3).
  if (run.frames !== attempt.after) return 'frame_missing'
  return null
}

/** True if a repeated append was stored the first time: the run has exactly the frames it would have then. */
export function wasStored(run: RunState | undefined, attempt: AppendAttempt): boolean {
  return run?.epoch === attempt.epoch && run?.frames === attempt.after + attempt.drafts.length
}

/** A terminal frame must be its run's last, and only runs have one (L5). Names the bug in our code otherwise. */
export function terminalMistake(attempt: Pick<AppendAttempt, 'runId' | 'drafts'>): string | null {
  const terminal = attempt.drafts.findIndex((draft) => isTerminalKind(draft.kind))
  if (terminal < 0) return null
  if (attempt.runId === null) return 'a terminal frame needs a run'
  return terminal === attempt.drafts.length - 1 ? null : 'a terminal frame must be the last of its run'
}

export function endsRun(attempt: AppendAttempt): boolean {
  return isTerminalKind(attempt.drafts.at(-1)?.kind ?? '')
}
