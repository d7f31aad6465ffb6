import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { first, type Script } from '../script.ts'
import { findHead, lineOf } from './line.ts'

/** The last frame on the line with the tool call's outcome, or null. */
export function* findToolOutput(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId; toolCallId: string },
): Script<Refusable<{ frame: string; blob: string | null } | null>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  for (const part of (yield* lineOf(dialect, head.head_segment, head.seq)).toReversed()) {
    const event = yield* first(
      dialect.db
        .selectFrom('tool_outputs as t')
        .innerJoin('events as e', (join) =>
          join.onRef('e.segment', '=', 't.segment').onRef('e.seq', '=', 't.seq'),
        )
        .select(['e.frame', 'e.blob'])
        .where('t.tool_call_id', '=', query.toolCallId)
        .where('t.segment', '=', part.segment)
        .where('t.seq', '<=', part.to)
        .orderBy('t.seq', 'desc')
        .limit(1),
    )
    if (event) return event
  }
  return null
}
