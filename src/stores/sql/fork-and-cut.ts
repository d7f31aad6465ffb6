import { timestamp } from '../../core/clock.ts'
import type { CutCommand, ForkCommand, MoveHeadCommand } from '../../core/ledger.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import type { Dialect } from './dialect.ts'
import { findHead } from './line.ts'
import { abandonActive } from './queue.ts'
import { noConversation, type Refusable } from './refusal.ts'
import { all, first, type Script } from './script.ts'
import { beginSegment, placeOf, setHead } from './segments.ts'

/** Fork and cut are the same thing: a new segment whose parent is cut at `after`. */
export function* fork(
  dialect: Dialect,
  command: ForkCommand & { now: number },
): Script<Refusable<{ done: true }>> {
  const parent = yield* placeOf(dialect, command)
  if ('refused' in parent) return parent
  const frames: FrameDraft[] = [
    {
      kind: 'conversation.forked',
      parent_conversation_id: command.conversationId,
      from_event_number: command.after,
    },
  ]
  if (command.title !== undefined) frames.push({ kind: 'conversation.retitled', title: command.title })
  const segment = yield* beginSegment(dialect, {
    tenant: command.tenant,
    segmentId: command.newSegmentId,
    conversationId: command.newConversationId,
    now: command.now,
    parent: parent.segment,
    tip: parent.tip,
    frames,
  })
  const source = yield* first(
    dialect.db
      .selectFrom('conversations')
      .select(['workspace_id', 'settings'])
      .where('id', '=', command.conversationId),
  )
  yield* all(
    dialect.db.insertInto('conversations').values({
      id: command.newConversationId,
      tenant_id: command.tenant,
      head_segment: segment,
      workspace_id: source?.workspace_id ?? null,
      parent_conversation_id: command.conversationId,
      parent_event_number: command.after,
      settings: source?.settings ?? '{}',
      created_at: timestamp(command.now),
      updated_at: timestamp(command.now),
      deleted_at: null,
      deleted_by: null,
    }),
  )
  return { done: true }
}

export function* cut(
  dialect: Dialect,
  command: CutCommand & { now: number },
): Script<Refusable<{ done: true }>> {
  const parent = yield* placeOf(dialect, command)
  if ('refused' in parent) return parent
  const truncated: FrameDraft = {
    kind: 'conversation.truncated',
    cut_after: command.after,
    message_id: command.messageId,
    by: command.by,
  }
  const segment = yield* beginSegment(dialect, {
    tenant: command.tenant,
    segmentId: command.newSegmentId,
    conversationId: command.conversationId,
    now: command.now,
    parent: parent.segment,
    tip: parent.tip,
    frames: [truncated],
  })
  yield* setHead(dialect, command.conversationId, segment, command.now)
  yield* abandonActive(dialect, command.conversationId)
  return { done: true }
}

export function* moveHead(
  dialect: Dialect,
  command: MoveHeadCommand & { now: number },
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const target = yield* first(
    dialect.db
      .selectFrom('segments')
      .select('no')
      .where('id', '=', command.segmentId)
      .where('conversation_id', '=', command.conversationId),
  )
  if (!target) return { refused: 'segment_not_found', why: 'The conversation has no such segment.' }
  yield* setHead(dialect, command.conversationId, target.no, command.now)
  if (target.no !== head.head_segment) yield* abandonActive(dialect, command.conversationId)
  return { done: true }
}
