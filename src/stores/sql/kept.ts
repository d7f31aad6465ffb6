import { headOf, type Line, type LinePart, partsBetween } from '../../core/line.ts'
import {
  labels,
  MAIN,
  sessionNumber,
  type WorkRows,
  type WorkState,
  workStateOf,
} from '../../core/work-sessions.ts'
import type { Frame, FrameDraft } from '../../protocol/frames.ts'
import type { ConversationId } from '../../protocol/ids.ts'
import { workRows, workRowsOn } from './checkpoints.ts'
import type { Dialect } from './dialect.ts'
import { runIdOf } from './place.ts'
import type { Schema } from './schema.ts'
import { all, first, type Script } from './script.ts'

/**
 * What still stands when a conversation leaves a line: the title that a person gave it, and what was done with its files.
 * The frames that say so go with the line, so it is said again on the new one.
 */

/** A title that a person gave. One that the agent thought of goes with what it was about. */
export function* keptTitle(
  dialect: Dialect,
  { old, after, now }: { old: Line; after: number; now: Line },
): Script<FrameDraft[]> {
  for (const part of partsBetween(old, after + 1, headOf(old)).toReversed()) {
    const titles = yield* titlesOn(dialect, part)
    const own = titles.find(({ frame }) => runIdOf(frame) === null)
    if (!own) continue
    const title = yield* lastTitle(dialect, now)
    return title === own.title ? [] : [{ kind: 'conversation.retitled', title: own.title }]
  }
  return []
}

function* titlesOn({ db }: Dialect, part: LinePart): Script<{ title: string; frame: string }[]> {
  return yield* all(
    db
      .selectFrom('titles as t')
      .innerJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 't.segment').onRef('e.seq', '=', 't.seq'),
      )
      .select(['t.title', 'e.frame'])
      .where('t.segment', '=', part.segment)
      .where('t.seq', '>=', part.from)
      .where('t.seq', '<=', part.to)
      .orderBy('t.seq', 'desc'),
  )
}

function* lastTitle(dialect: Dialect, line: Line): Script<string | null> {
  for (const part of line.toReversed()) {
    const [last] = yield* titlesOn(dialect, part)
    if (last) return last.title
  }
  return null
}

/**
 * The files as they were at the place, what people's restores and resets have saved, the approved state, the open work session
 * and its last checkpoint, as far as the new line does not tell of them.
 */
export function* keptWork(
  dialect: Dialect,
  asked: { tenant: string; id: ConversationId },
  { old, after, now: line }: { old: Line; after: number; now: readonly LinePart[] },
): Script<FrameDraft[]> {
  const rows = yield* workRows(dialect, { ...asked, isCounted: false })
  if ('refused' in rows) return []
  const before = workStateOf(rows)
  const told: WorkRows = yield* workRowsOn(dialect, asked.id, rows.workspaceId, line)
  const left = partsBetween(old, after + 1, headOf(old))
  const safe = yield* keptSafe(dialect, asked.id, before.session, left)
  const frames: FrameDraft[] = safe.map((row) => ({ kind: 'workspace.checkpoint', ...row }))
  // They may be the last of their session on the new line; the current state is then restated after them.
  for (const { work_session: workSession, checkpoint_id: checkpointId, number } of safe) {
    const known = told.tips.find((tip) => tip.workSession === workSession)
    if (known && known.number > number) continue
    told.tips = [
      ...told.tips.filter((tip) => tip !== known),
      { workSession, checkpointId, count: 1, number, firstAt: '', firstId: checkpointId },
    ]
  }
  let { lastNumber } = before
  const kept = (workSession: string, checkpointId: string) => {
    const number = ++lastNumber
    told.tips = [
      ...told.tips.filter((tip) => tip.workSession !== workSession),
      { workSession, checkpointId, count: 1, number, firstAt: '', firstId: checkpointId },
    ]
    return keptCheckpoint(dialect, workSession, checkpointId, number)
  }
  if (before.main !== null && workStateOf(told).main !== before.main) {
    frames.push(yield* kept(MAIN, before.main))
  }
  for (const closing of standing(rows)) {
    if (told.closings.some((one) => one.workSession === closing.workSession)) continue
    told.closings = [...told.closings, closing]
    frames.push(yield* closingFrame(dialect, asked.id, before, closing))
  }
  if (before.tip !== null && workStateOf(told).tip !== before.tip) {
    frames.push(yield* kept(before.session, before.tip))
  }
  return frames
}

/** How the open session was opened, and when something was approved last. */
function standing({ closings }: WorkRows): WorkRows['closings'] {
  const byNumber = closings.toSorted((a, b) => sessionNumber(a.workSession) - sessionNumber(b.workSession))
  const approved = byNumber.findLast((closing) => closing.status === 'merged')
  const last = byNumber.at(-1)
  return [...new Set([approved, last])].flatMap((closing) => closing ?? [])
}

/** So many of what restores and resets have saved are told of again: the last ones. */
const MOST_SAVED = 20

/** The checkpoint of the place, and what was there before files were put back. */
function* keptSafe({ db }: Dialect, id: string, session: string, left: readonly LinePart[]): Script<Told[]> {
  const saved: Schema['checkpoints'][] = []
  for (const part of left) {
    const rows = yield* all(
      db
        .selectFrom('checkpoints')
        .selectAll()
        .where('segment', '=', part.segment)
        .where('seq', '>=', part.from)
        .where('seq', '<=', part.to)
        .orderBy('seq'),
    )
    saved.push(...rows)
  }
  const [place, ...rest] = saved
  const safe = rest.filter(
    ({ label, conversation_id }) =>
      conversation_id === id && (label === labels.beforeRestore || label === labels.beforeReset),
  )
  // The sessions of a parent are not the fork's own.
  const own = place && (place.conversation_id === id ? place : { ...place, work_session: session, number: 0 })
  const wanted = [...(own ? [own] : []), ...safe.slice(-MOST_SAVED)]
  const once = new Map(wanted.map((row) => [row.checkpoint_id, row]))
  return [...once.values()].map(fieldsOf)
}

type Told = Omit<Schema['checkpoints'], 'segment' | 'seq' | 'conversation_id' | 'run_id' | 'created_at'>

/** Without a label that holds words of a message. */
function fieldsOf(row: Told): Told {
  const { checkpoint_id, work_session, files, changed, excluded, number } = row
  const label = labels.isOfMessage(row.label) ? labels.kept : row.label
  return { checkpoint_id, work_session, label, files, changed, excluded, number }
}

function* keptCheckpoint(
  { db }: Dialect,
  work_session: string,
  checkpoint_id: string,
  number: number,
): Script<FrameDraft> {
  const row = yield* first(
    db
      .selectFrom('checkpoints')
      .select(['files', 'changed', 'excluded', 'label'])
      .where('checkpoint_id', '=', checkpoint_id)
      .limit(1),
  )
  const known = row ?? { files: 0, changed: 0, excluded: 0, label: labels.kept }
  return { kind: 'workspace.checkpoint', ...fieldsOf({ ...known, checkpoint_id, work_session, number }) }
}

function* closingFrame(
  { db }: Dialect,
  id: string,
  before: WorkState,
  { workSession, status, checkpointId, nextSession, at }: WorkRows['closings'][number],
): Script<FrameDraft> {
  const places = { closed_session: workSession, new_session: nextSession, closed_at: at }
  const event = yield* first(
    db
      .selectFrom('session_closings as x')
      .innerJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 'x.segment').onRef('e.seq', '=', 'x.seq'),
      )
      .select('e.frame')
      .where('x.conversation_id', '=', id)
      .where('x.work_session', '=', workSession)
      .limit(1),
  )
  const told = event?.frame.endsWith('}') ? (JSON.parse(event.frame) as object) : {}
  if (status === 'merged') {
    const { commits_approved = 0 } = told as Partial<Frame<'session.approved'>>
    return { kind: 'session.approved', approved_commit: checkpointId, commits_approved, ...places }
  }
  const { pre_reset_checkpoint = before.heads[workSession] ?? checkpointId } = told as Partial<
    Frame<'session.reset'>
  >
  return { kind: 'session.reset', reset_to: checkpointId, pre_reset_checkpoint, skipped: [], ...places }
}
