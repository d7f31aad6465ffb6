import { runIdOf } from '../../../core/frame-head.ts'
import { headOf, type Line, type LinePart, partsBetween } from '../../../core/line.ts'
import { type CheckpointCounts, closingsToKeep, restatedTitle, restatedWork } from '../../../core/restated.ts'
import { workStateOf } from '../../../core/work-sessions.ts'
import type { FrameDraft } from '../../../protocol/frames.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import type { Schema } from '../schema.ts'
import { all, type Script } from '../script.ts'
import { workRows, workRowsOn } from '../work-sessions/checkpoints.ts'

/** Reads what core needs to restate a conversation's state on the line that it moves to. */
export function* restatedFrames(
  dialect: Dialect,
  conversation: { tenant: string; id: ConversationId },
  { old, after, now }: { old: Line; after: number; now: readonly LinePart[] },
): Script<FrameDraft[]> {
  const left = partsBetween(old, after + 1, headOf(old))
  return [
    ...restatedTitle(yield* titlesOn(dialect, left), yield* lastTitleOn(dialect, now)),
    ...(yield* workFrames(dialect, conversation, left, now)),
  ]
}

interface Title {
  title: string
  runId: string | null
}

/** Titles on these parts of a line, newest first. */
function* titlesOn(dialect: Dialect, parts: readonly LinePart[]): Script<Title[]> {
  const found: Title[] = []
  for (const part of parts.toReversed()) found.push(...(yield* titlesIn(dialect, part)))
  return found
}

function* lastTitleOn(dialect: Dialect, line: readonly LinePart[]): Script<string | null> {
  for (const part of line.toReversed()) {
    const [last] = yield* titlesIn(dialect, part)
    if (last) return last.title
  }
  return null
}

function* titlesIn({ db }: Dialect, part: LinePart): Script<Title[]> {
  const rows = yield* all(
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
  return rows.map(({ title, frame }) => ({ title, runId: runIdOf(frame) }))
}

function* workFrames(
  dialect: Dialect,
  { tenant, id }: { tenant: string; id: ConversationId },
  left: readonly LinePart[],
  line: readonly LinePart[],
): Script<FrameDraft[]> {
  const before = yield* workRows(dialect, { tenant, id, isCounted: false })
  if ('refused' in before) return []
  const { main, tip } = workStateOf(before)
  return restatedWork({
    conversationId: id,
    before,
    now: yield* workRowsOn(dialect, id, before.workspaceId, line),
    left: yield* checkpointsOn(dialect, left),
    checkpoints: yield* countsOf(dialect, [main, tip]),
    closings: yield* closingFrames(
      dialect,
      id,
      closingsToKeep(before).map((closing) => closing.workSession),
    ),
  })
}

function* checkpointsOn({ db }: Dialect, parts: readonly LinePart[]): Script<Schema['checkpoints'][]> {
  const found: Schema['checkpoints'][] = []
  for (const part of parts) {
    const rows = yield* all(
      db
        .selectFrom('checkpoints')
        .selectAll()
        .where('segment', '=', part.segment)
        .where('seq', '>=', part.from)
        .where('seq', '<=', part.to)
        .orderBy('seq'),
    )
    found.push(...rows)
  }
  return found
}

function* countsOf(
  { db, isIn, list }: Dialect,
  ids: readonly (string | null)[],
): Script<Map<string, CheckpointCounts>> {
  const rows = yield* all(
    db
      .selectFrom('checkpoints as c')
      .select(['c.checkpoint_id', 'c.files', 'c.changed', 'c.excluded', 'c.label'])
      .where(isIn('c.checkpoint_id', list(ids.flatMap((id) => id ?? [])))),
  )
  return new Map(rows.map(({ checkpoint_id, ...counts }) => [checkpoint_id, counts]))
}

/** By work session. A frame in a blob is left out: its row has only the head. */
function* closingFrames(
  { db, isIn, list }: Dialect,
  id: string,
  sessions: readonly string[],
): Script<Map<string, object>> {
  const rows = yield* all(
    db
      .selectFrom('session_closings as x')
      .innerJoin('events as e', (join) =>
        join.onRef('e.segment', '=', 'x.segment').onRef('e.seq', '=', 'x.seq'),
      )
      .select(['x.work_session', 'e.frame'])
      .where('x.conversation_id', '=', id)
      .where(isIn('x.work_session', list(sessions))),
  )
  return new Map(
    rows
      .filter(({ frame }) => frame.endsWith('}'))
      .map(({ work_session, frame }) => [work_session, JSON.parse(frame) as object]),
  )
}
