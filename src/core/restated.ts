import type { Frame, FrameDraft } from '../protocol/frames.ts'
import type { CheckpointRow } from './projection.ts'
import { labels, MAIN, sessionNumber, type WorkRows, type WorkState, workStateOf } from './work-sessions.ts'

/**
 * State that survives when a conversation leaves a line: the title that a person gave it, and what was done with its files.
 * The frames that record this state stay on the old line, so they are restated on the new one.
 */

/** Keeps a title that a person gave. A title from the agent leaves with the messages it describes. */
export function restatedTitle(
  /** Titles on the part of the line that is left, newest first. */
  left: readonly { title: string; runId: string | null }[],
  /** The title that the new line records. */
  current: string | null,
): FrameDraft[] {
  const own = left.find(({ runId }) => runId === null)
  return !own || own.title === current ? [] : [{ kind: 'conversation.retitled', title: own.title }]
}

type Closing = WorkRows['closings'][number]
export type CheckpointCounts = Pick<CheckpointRow, 'label' | 'files' | 'changed' | 'excluded'>

export interface LeftWork {
  conversationId: string
  /** The work that the old line records, and the new one. */
  before: WorkRows
  now: WorkRows
  /** Checkpoints on the part of the line that is left, oldest first. */
  left: readonly CheckpointRow[]
  /** The counts of the approved checkpoint and of the last one. */
  checkpoints: ReadonlyMap<string, CheckpointCounts>
  /** The recorded frames of the closings to keep, by work session. */
  closings: ReadonlyMap<string, object>
}

/** Restates at most this many safety checkpoints, the newest ones. */
const MOST_SAVED = 20

/**
 * Restates what the new line doesn't record: the files as they were at the place, the safety checkpoints of restores and
 * resets, the approved state, the open work session and its last checkpoint.
 */
export function restatedWork(work: LeftWork): FrameDraft[] {
  const before = workStateOf(work.before)
  const safe = safeCheckpoints(work, before.session)
  const frames: FrameDraft[] = safe.map((row) => ({ kind: 'workspace.checkpoint', ...row }))
  let now = work.now
  // One of these may become its session's last on the new line; the current state is then restated after it.
  for (const { work_session, checkpoint_id, number } of safe) {
    const known = now.tips.find((tip) => tip.workSession === work_session)
    if (!known || known.number <= number) now = withTip(now, work_session, checkpoint_id, number)
  }
  let { lastNumber } = before
  const restate = (workSession: string, checkpointId: string) => {
    const number = ++lastNumber
    now = withTip(now, workSession, checkpointId, number)
    frames.push(checkpointFrame(work, workSession, checkpointId, number))
  }
  if (before.main !== null && workStateOf(now).main !== before.main) restate(MAIN, before.main)
  for (const closing of closingsToKeep(work.before)) {
    if (now.closings.some((one) => one.workSession === closing.workSession)) continue
    now = { ...now, closings: [...now.closings, closing] }
    frames.push(closingFrame(work, before, closing))
  }
  if (before.tip !== null && workStateOf(now).tip !== before.tip) restate(before.session, before.tip)
  return frames
}

/** The closings to keep: the last approval, and the one that opened the current session. */
export function closingsToKeep({ closings }: WorkRows): Closing[] {
  const byNumber = closings.toSorted((a, b) => sessionNumber(a.workSession) - sessionNumber(b.workSession))
  const approved = byNumber.findLast((closing) => closing.status === 'merged')
  const last = byNumber.at(-1)
  return [...new Set([approved, last])].flatMap((closing) => closing ?? [])
}

function withTip(rows: WorkRows, workSession: string, checkpointId: string, number: number): WorkRows {
  const tip = { workSession, checkpointId, count: 1, number, firstAt: '', firstId: checkpointId }
  return { ...rows, tips: [...rows.tips.filter((one) => one.workSession !== workSession), tip] }
}

/** The checkpoint of the place, and the safety checkpoints of restores and resets after it. */
function safeCheckpoints({ conversationId: id, left }: LeftWork, session: string): RestatedCheckpoint[] {
  const [place, ...rest] = left
  const safe = rest.filter(
    ({ label, conversation_id }) =>
      conversation_id === id && (label === labels.beforeRestore || label === labels.beforeReset),
  )
  // A fork doesn't share its parent's work sessions.
  const own = place && (place.conversation_id === id ? place : { ...place, work_session: session, number: 0 })
  const wanted = [...(own ? [own] : []), ...safe.slice(-MOST_SAVED)]
  const once = new Map(wanted.map((row) => [row.checkpoint_id, row]))
  return [...once.values()].map(restatedCheckpoint)
}

type RestatedCheckpoint = Omit<CheckpointRow, 'segment' | 'seq' | 'conversation_id' | 'run_id' | 'created_at'>

/** Replaces a label that quotes a message: the message may have been deleted. */
function restatedCheckpoint(row: RestatedCheckpoint): RestatedCheckpoint {
  const { checkpoint_id, work_session, files, changed, excluded, number } = row
  const label = labels.isOfMessage(row.label) ? labels.kept : row.label
  return { checkpoint_id, work_session, label, files, changed, excluded, number }
}

function checkpointFrame(
  { checkpoints }: LeftWork,
  work_session: string,
  checkpoint_id: string,
  number: number,
): FrameDraft {
  const known = checkpoints.get(checkpoint_id) ?? { files: 0, changed: 0, excluded: 0, label: labels.kept }
  const row = restatedCheckpoint({ ...known, checkpoint_id, work_session, number })
  return { kind: 'workspace.checkpoint', ...row }
}

function closingFrame(
  { closings }: LeftWork,
  before: WorkState,
  { workSession, status, checkpointId, nextSession, at }: Closing,
): FrameDraft {
  const places = { closed_session: workSession, new_session: nextSession, closed_at: at }
  const recorded = closings.get(workSession) ?? {}
  if (status === 'merged') {
    const { commits_approved = 0 } = recorded as Partial<Frame<'session.approved'>>
    return { kind: 'session.approved', approved_commit: checkpointId, commits_approved, ...places }
  }
  const { pre_reset_checkpoint = before.heads[workSession] ?? checkpointId } = recorded as Partial<
    Frame<'session.reset'>
  >
  return { kind: 'session.reset', reset_to: checkpointId, pre_reset_checkpoint, skipped: [], ...places }
}
