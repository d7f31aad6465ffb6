import { runIdOf } from '../../../core/frame-head.ts'
import type { Place } from '../../../core/ledger.ts'
import { headOf, type LinePart, partAt, partsBetween } from '../../../core/line.ts'
import type { Tip } from '../../../core/seal.ts'
import { isTerminalKind } from '../../../protocol/frame-kinds.ts'
import type { AnyFrame } from '../../../protocol/frames.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable, type Refusal } from '../refusal.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { isRebuilding, rebuilding } from '../upkeep/rebuilding.ts'
import { findHead, type HeadOfLine, lineOf } from './line.ts'

/** Finds places on a line, where forks and cuts are made. */

interface PlaceQuery {
  tenant: string
  conversationId: ConversationId
  /** Null for the head. */
  at: Place | null
}

export interface FoundPlace {
  head: HeadOfLine
  line: LinePart[]
  /** The last event before the place. */
  after: number
  /** The segment that contains this event, and the tip that a child segment is chained to. */
  segment: number
  tip: Tip
  /** The message that the query named. */
  message: FoundMessage | null
}

export type FoundMessage = Pick<
  Schema['messages'],
  'segment' | 'seq' | 'role' | 'run_id' | 'message_id' | 'checkpoint_id'
>

export const messageColumns = ['segment', 'seq', 'role', 'run_id', 'message_id', 'checkpoint_id'] as const

export const noMessage = {
  refused: 'message_not_found',
  why: 'The conversation has no such message.',
} as const satisfies Refusal

export function* findPlace(
  dialect: Dialect,
  { tenant, conversationId, at }: PlaceQuery,
  use: 'change' | 'read',
): Script<Refusable<FoundPlace>> {
  const head = yield* findHead(dialect, tenant, conversationId, use)
  if (!head) return noConversation
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  const message = at && 'before' in at ? yield* messageOn(dialect, line, at.before) : null
  if (message === undefined) return noMessage
  const after = message ? yield* endBefore(dialect, line, message) : at && 'after' in at ? at.after : head.seq
  const part = partAt(line, after)
  if (!part) return { refused: 'event_not_found', why: `The line has no event ${after}.` }
  const event = yield* first(
    dialect.db
      .selectFrom('events')
      .select(['bytes_before', 'bytes', 'digest'])
      .where('segment', '=', part.segment)
      .where('seq', '=', after),
  )
  if (!event) throw new Error(`event ${after} is missing from segment ${part.segment}`)
  const { bytes_before, bytes, digest } = event
  const tip = { seq: after, bytes: bytes_before + bytes, digest }
  return { head, line, after, segment: part.segment, tip, message }
}

/** The message with this id on the line, or undefined. */
export function* messageOn(
  { db }: Dialect,
  line: readonly LinePart[],
  messageId: string,
): Script<FoundMessage | undefined> {
  const rows = yield* all(
    db
      .selectFrom('messages')
      .select(messageColumns)
      .where('message_id', '=', messageId)
      .orderBy('seq', 'desc'),
  )
  return rows.find((row) => partAt(line, row.seq)?.segment === row.segment)
}

/** The place before an answer is right after its question: everything the run did lies between the two. */
function* endBefore(dialect: Dialect, line: readonly LinePart[], message: FoundMessage): Script<number> {
  if (message.role === 'user' || message.run_id === null) return message.seq - 1
  const question = yield* first(
    dialect.db
      .selectFrom('messages')
      .select(['segment', 'seq'])
      .where('run_id', '=', message.run_id)
      .where('role', '=', 'user'),
  )
  const isOnLine = question && partAt(line, question.seq)?.segment === question.segment
  return isOnLine ? question.seq : message.seq - 1
}

export interface FoundCheckpoint {
  after: number
  checkpointId: string | null
  line: LinePart[]
  /** In the middle of a run: the event number of its message. */
  since: number | null
}

/**
 * The checkpoint with the files as they were at a place. Checkpoints are taken before files change, so it is the next one
 * on the line; in the middle of a run it is the one taken before the run's message. Null if nothing has changed since.
 */
export function* checkpointAt(dialect: Dialect, query: PlaceQuery): Script<Refusable<FoundCheckpoint>> {
  if (yield* isRebuilding(dialect)) return rebuilding
  const place = yield* findPlace(dialect, query, 'read')
  if ('refused' in place) return place
  const { line, after, segment } = place
  const question = yield* lastQuestion(dialect, line, after)
  // A run that a cut or fork split counts as ended on this line.
  const isInside = question?.segment === segment && !(yield* hasEnded(dialect, line, after, question))
  if (isInside) return { after, checkpointId: question?.checkpoint_id ?? null, line, since: question.seq }
  // First the next checkpoint of the segment, even past this line's cut; then the next one on the line.
  const next =
    (yield* firstCheckpoint(dialect, { segment, from: after + 1, to: Number.MAX_SAFE_INTEGER })) ??
    (yield* checkpointOn(dialect, line, after + 1, headOf(line)))
  return { after, checkpointId: next, line, since: null }
}

function* lastQuestion(
  { db }: Dialect,
  line: readonly LinePart[],
  upTo: number,
): Script<FoundMessage | undefined> {
  for (const part of partsBetween(line, 1, upTo).toReversed()) {
    const found = yield* first(
      db
        .selectFrom('messages')
        .select(messageColumns)
        .where('segment', '=', part.segment)
        .where('seq', '<=', part.to)
        .where('role', '=', 'user')
        .orderBy('seq', 'desc')
        .limit(1),
    )
    if (found) return found
  }
  return undefined
}

const EVENTS_AT_ONCE = 20

/** True if the message's run has ended by this event: it has an answer, or its last frame is terminal. */
function* hasEnded(
  { db }: Dialect,
  line: readonly LinePart[],
  upTo: number,
  question: FoundMessage,
): Script<boolean> {
  if (question.run_id === null) return true
  const answer = yield* first(
    db
      .selectFrom('messages')
      .select('seq')
      .where('run_id', '=', question.run_id)
      .where('segment', '=', question.segment)
      .where('role', '=', 'assistant'),
  )
  if (answer) return answer.seq <= upTo
  for (const part of partsBetween(line, question.seq, upTo).toReversed()) {
    for (let to = part.to; to >= part.from; to -= EVENTS_AT_ONCE) {
      const events = yield* all(
        db
          .selectFrom('events')
          .select('frame')
          .where('segment', '=', part.segment)
          .where('seq', '<=', to)
          .where('seq', '>', Math.max(to - EVENTS_AT_ONCE, part.from - 1))
          .orderBy('seq', 'desc'),
      )
      const own = events.find(({ frame }) => runIdOf(frame) === question.run_id)
      if (own) return isTerminalKind(kindOf(own.frame))
    }
  }
  return false
}

/** Empty for a spilled frame, which is never a terminal frame without an answer. */
function kindOf(frame: string): string {
  return frame.endsWith('}') ? (JSON.parse(frame) as AnyFrame).kind : ''
}

/** The first checkpoint on these events of the line. */
function* checkpointOn(
  dialect: Dialect,
  line: readonly LinePart[],
  from: number,
  to: number,
): Script<string | null> {
  for (const part of partsBetween(line, from, to)) {
    const found = yield* firstCheckpoint(dialect, part)
    if (found !== null) return found
  }
  return null
}

function* firstCheckpoint(
  { db }: Dialect,
  { segment, from, to }: Pick<LinePart, 'segment' | 'from' | 'to'>,
): Script<string | null> {
  const found = yield* first(
    db
      .selectFrom('checkpoints')
      .select('checkpoint_id')
      .where('segment', '=', segment)
      .where('seq', '>=', from)
      .where('seq', '<=', to)
      .orderBy('seq')
      .limit(1),
  )
  return found?.checkpoint_id ?? null
}
