import { timestamp } from '../../../core/clock.ts'
import type {
  DeleteCommand,
  Deletion,
  ForkCommand,
  UndeleteCommand,
  Undeletion,
} from '../../../core/ledger.ts'
import { headOf, type LinePart, partsBetween, placeOnLine } from '../../../core/line.ts'
import type { Tip } from '../../../core/seal.ts'
import type { Conversation } from '../../../protocol/api/conversations.ts'
import type { FrameDraft } from '../../../protocol/frames.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import { audit } from '../conversations/audit.ts'
import { repeatedAnswer, storeAnswer } from '../conversations/idempotency.ts'
import { noteOperation } from '../conversations/operation-log.ts'
import { readConversation } from '../conversations/read-conversations.ts'
import type { Dialect } from '../dialect.ts'
import { abandonAll } from '../queue/queue.ts'
import { noConversation, type Refusable, type Refusal } from '../refusal.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { isRebuilding, rebuilding } from '../upkeep/rebuilding.ts'
import { findHead, type HeadOfLine, lineOf } from './line.ts'
import { type FoundMessage, findPlace, messageColumns, messageOn, noMessage } from './place.ts'
import { restatedFrames } from './restated.ts'
import { appendToSegment, beginSegment, setHead } from './segments.ts'

/** Fork and cut work alike: both start a new segment that leaves its parent at a place. */
export function* fork(
  dialect: Dialect,
  command: ForkCommand & { now: number },
): Script<Refusable<{ conversation: Conversation; repeated: boolean }>> {
  const { tenant, conversationId, newConversationId, idempotency, now } = command
  const place = yield* findPlace(dialect, command, 'change')
  if ('refused' in place) return place
  const earlier = yield* repeatedAnswer<Conversation>(dialect, tenant, idempotency)
  if (earlier) return 'refused' in earlier ? earlier : { conversation: earlier, repeated: true }
  const frames: FrameDraft[] = [
    {
      kind: 'conversation.forked',
      parent_conversation_id: conversationId,
      from_event_number: place.after,
    },
  ]
  if (command.title !== undefined) frames.push({ kind: 'conversation.retitled', title: command.title })
  const segment = yield* beginSegment(dialect, {
    tenant,
    segmentId: command.newSegmentId,
    conversationId: newConversationId,
    now,
    parent: place.segment,
    tip: place.tip,
    frames,
  })
  const source = yield* first(
    dialect.db
      .selectFrom('conversations')
      .select(['workspace_id', 'settings'])
      .where('id', '=', conversationId),
  )
  yield* all(
    dialect.db.insertInto('conversations').values({
      id: newConversationId,
      tenant_id: tenant,
      head_segment: segment,
      workspace_id: command.workspaceId ?? source?.workspace_id ?? null,
      parent_conversation_id: conversationId,
      parent_event_number: place.after,
      settings: source?.settings ?? '{}',
      created_at: timestamp(now),
      updated_at: timestamp(now),
      deleted_at: null,
      deleted_by: null,
    }),
  )
  const conversation = yield* readConversation(dialect, { tenant, id: newConversationId })
  if ('refused' in conversation) throw new Error('the new fork could not be read back')
  if (command.by !== undefined) {
    const details = { fork_id: newConversationId }
    const operation = { tenant, by: command.by, at: now, conversationId, details }
    yield* noteOperation(dialect, { ...operation, kind: 'conversation.forked' })
  }
  yield* storeAnswer(dialect, { tenant, idempotency, now }, conversation)
  return { conversation, repeated: false }
}

const notDeletable = {
  refused: 'message_not_deletable',
  why: 'Only user messages can be deleted, with everything after them. Delete the message that this one answers.',
} as const satisfies Refusal

export function* deleteMessages(
  dialect: Dialect,
  command: DeleteCommand & { now: number },
): Script<Refusable<Deletion>> {
  const { tenant, conversationId, by, now } = command
  if (yield* isRebuilding(dialect)) return rebuilding
  const place = yield* findPlace(dialect, command, 'change')
  if ('refused' in place) return place
  const { head, line, after } = place
  if (place.message?.role === 'assistant') return notDeletable
  const message = place.message ?? (yield* firstQuestion(dialect, line, after))
  const message_id = message?.message_id ?? `event_${after + 1}`
  const rest = partsBetween(line, 1, after)
  const frames: FrameDraft[] = [
    { kind: 'conversation.truncated', cut_after: after, message_id, by },
    ...(yield* restatedFrames(dialect, { tenant, id: conversationId }, { old: line, after, now: rest })),
  ]
  const segment = yield* beginSegment(dialect, {
    tenant,
    segmentId: command.newSegmentId,
    conversationId,
    now,
    parent: place.segment,
    tip: place.tip,
    frames,
  })
  const checkpoint_id = message?.checkpoint_id ?? null
  yield* leave(dialect, { conversationId, head, now }, { message_id, cut_after: after, checkpoint_id })
  yield* setHead(dialect, conversationId, segment, now)
  yield* abandonAll(dialect, conversationId)
  yield* audit(dialect, {
    tenant,
    by,
    at: now,
    action: 'message.deleted',
    conversationId,
    details: { message_id, events: [after + 1, head.seq] },
  })
  yield* noteOperation(dialect, {
    tenant,
    by,
    at: now,
    conversationId,
    kind: 'message.deleted',
    details: { message_id },
    undoing: command.undoing,
  })
  return { messageId: message_id, cutAfter: after, checkpointId: checkpoint_id, at: now }
}

/** Records the line being left, so that the conversation can return to it until it expires. */
function* leave(
  { db }: Dialect,
  { conversationId, head, now }: { conversationId: string; head: HeadOfLine; now: number },
  why: Pick<Schema['left_lines'], 'message_id' | 'cut_after' | 'checkpoint_id'>,
): Script<void> {
  yield* all(
    db.insertInto('left_lines').values({
      conversation_id: conversationId,
      segment: head.head_segment,
      seq: head.seq,
      ...why,
      left_at: timestamp(now),
      is_expired: 0,
    }),
  )
}

type LeftLine = Omit<Schema['left_lines'], 'no'> & { no: number }

function* leftLines(
  { db, lockRows }: Dialect,
  conversationId: string,
  use: 'read' | 'change',
): Script<LeftLine[]> {
  const rows = db
    .selectFrom('left_lines')
    .selectAll()
    .where('conversation_id', '=', conversationId)
    .where('is_expired', '=', 0)
    .orderBy('no', 'desc')
  return yield* all(use === 'change' ? rows.modifyEnd(lockRows) : rows)
}

export function* findDeletion(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId; messageId: string },
): Script<Refusable<{ earlier: Deletion | null }>> {
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  if (!head) return noConversation
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  const message = yield* messageOn(dialect, line, query.messageId)
  if (message) return message.role === 'user' ? { earlier: null } : notDeletable
  const rows = yield* all(
    dialect.db
      .selectFrom('left_lines')
      .selectAll()
      .where('conversation_id', '=', query.id)
      .where('message_id', '=', query.messageId)
      .where('is_expired', '=', 0)
      .orderBy('no', 'desc'),
  )
  const [left] = rows
  if (left) return { earlier: deletionOf(left) }
  const queued = yield* first(
    dialect.db
      .selectFrom('queue')
      .select(['run_id', 'state'])
      .where('conversation_id', '=', query.id)
      .where('message_id', '=', query.messageId),
  )
  if (!queued) return noMessage
  // Its run is active and about to append the message to the line.
  if (queued.state === 'active') return { earlier: null }
  return {
    ...noMessage,
    why: `The message is still in the queue. Remove it with: waymark queue --remove ${queued.run_id}`,
  }
}

function deletionOf(left: LeftLine): Deletion {
  return {
    messageId: left.message_id ?? '',
    cutAfter: left.cut_after ?? 0,
    checkpointId: left.checkpoint_id,
    at: Date.parse(left.left_at),
  }
}

export function* undeleteMessages(
  dialect: Dialect,
  command: UndeleteCommand & { now: number },
): Script<Refusable<Undeletion>> {
  const { tenant, conversationId, messageId, by, now } = command
  if (yield* isRebuilding(dialect)) return rebuilding
  const head = yield* findHead(dialect, tenant, conversationId, 'change')
  if (!head) return noConversation
  const current = yield* lineOf(dialect, head.head_segment, head.seq)
  if (yield* messageOn(dialect, current, messageId)) return notDeleted
  const found = yield* lineWith(dialect, conversationId, messageId, 'change')
  if (!found) return goneForGood
  const { left, line } = found
  const common = placeOnLine(line, current)?.after ?? 0
  const frames = [
    ...(yield* restatedFrames(
      dialect,
      { tenant, id: conversationId },
      { old: current, after: common, now: line },
    )),
  ]
  const question = yield* firstQuestion(dialect, current, common)
  yield* leave(
    dialect,
    { conversationId, head, now },
    { message_id: null, cut_after: null, checkpoint_id: null },
  )
  yield* all(dialect.db.deleteFrom('left_lines').where('no', '=', left.no))
  yield* setHead(dialect, conversationId, left.segment, now)
  const tip = yield* tipOf(dialect, left.segment)
  if (frames.length > 0) {
    yield* appendToSegment(dialect, { tenant, conversationId, segment: left.segment, tip, now, frames })
  }
  yield* abandonAll(dialect, conversationId)
  yield* audit(dialect, {
    tenant,
    by,
    at: now,
    action: 'message.undeleted',
    conversationId,
    details: { message_id: messageId, left: [common + 1, head.seq], events: [common + 1, tip.seq] },
  })
  yield* noteOperation(dialect, {
    tenant,
    by,
    at: now,
    conversationId,
    kind: 'message.undeleted',
    details: { message_id: messageId, left_message_id: question?.message_id ?? null },
    undoing: command.undoing,
  })
  return {
    headEventNumber: tip.seq + frames.length,
    leftMessageId: question?.message_id ?? null,
    at: now,
  }
}

/** Checks that a line with the message can still be restored, before the caller stops anything. */
export function* assertCanUndelete(
  dialect: Dialect,
  query: { tenant: string; id: ConversationId; messageId: string },
): Script<Refusable<{ done: true }>> {
  if (yield* isRebuilding(dialect)) return rebuilding
  const head = yield* findHead(dialect, query.tenant, query.id, 'read')
  if (!head) return noConversation
  const line = yield* lineOf(dialect, head.head_segment, head.seq)
  if (yield* messageOn(dialect, line, query.messageId)) return notDeleted
  return (yield* lineWith(dialect, query.id, query.messageId)) ? { done: true } : goneForGood
}

const notDeleted = {
  refused: 'message_not_deleted',
  why: 'The message has not been deleted.',
} as const satisfies Refusal

const goneForGood = {
  ...noMessage,
  why: 'The conversation has no such deleted message, or it has expired and can no longer be undeleted.',
} as const satisfies Refusal

function* lineWith(
  dialect: Dialect,
  conversationId: string,
  messageId: string,
  use: 'read' | 'change' = 'read',
): Script<{ left: LeftLine; line: LinePart[] } | undefined> {
  for (const left of yield* leftLines(dialect, conversationId, use)) {
    const line = yield* lineOf(dialect, left.segment, left.seq)
    if (yield* messageOn(dialect, line, messageId)) return { left, line }
  }
  return undefined
}

function* tipOf({ db }: Dialect, segment: number): Script<Tip> {
  const event = yield* first(
    db
      .selectFrom('events')
      .select(['seq', 'bytes_before', 'bytes', 'digest'])
      .where('segment', '=', segment)
      .orderBy('seq', 'desc')
      .limit(1),
  )
  if (!event) throw new Error(`segment ${segment} is empty`)
  const { seq, bytes_before, bytes, digest } = event
  return { seq, bytes: bytes_before + bytes, digest }
}

/** The first user message after this event of the line. */
function* firstQuestion(
  { db }: Dialect,
  line: readonly LinePart[],
  after: number,
): Script<FoundMessage | undefined> {
  for (const part of partsBetween(line, after + 1, headOf(line))) {
    const found = yield* first(
      db
        .selectFrom('messages')
        .select(messageColumns)
        .where('segment', '=', part.segment)
        .where('seq', '>=', part.from)
        .where('seq', '<=', part.to)
        .where('role', '=', 'user')
        .orderBy('seq')
        .limit(1),
    )
    if (found) return found
  }
  return undefined
}
