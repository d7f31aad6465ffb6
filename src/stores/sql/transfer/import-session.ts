import type { Dialect } from '../dialect.ts'
import { type AppendRequest, append } from '../lines/append.ts'
import { findHead } from '../lines/line.ts'
import { noConversation, type Refusable } from '../refusal.ts'
import { insertAll, type Script } from '../script.ts'

/** The runs of an import are written whole, so their first epoch is their last. */
export const IMPORT_EPOCH = 1

/** Appends whole runs with the times that they had elsewhere, if the line still ends at `after`. */
export function* importSession(
  dialect: Dialect,
  command: {
    tenant: string
    conversationId: string
    after: number
    requests: readonly AppendRequest[]
  },
): Script<Refusable<{ lastSeq: number }>> {
  const { tenant, conversationId, after, requests } = command
  const head = yield* findHead(dialect, tenant, conversationId, 'change')
  if (!head) return noConversation
  if (head.seq !== after) {
    return {
      refused: 'import_conflict',
      why: `${conversationId} was changed while the session was imported. Import it again.`,
    }
  }
  const runs = new Set(requests.flatMap(({ runId }) => runId ?? []))
  yield* insertAll(
    'runs',
    [...runs].map((id) => ({
      id,
      conversation_id: conversationId,
      segment: head.head_segment,
      epoch: IMPORT_EPOCH,
      frames: 0,
      ended: 0,
    })),
  )
  const outcomes = yield* append(dialect, requests)
  const last = outcomes.at(-1)
  const isStored = outcomes.every(({ ok }) => ok)
  if (!isStored || !last?.ok) throw new Error('an imported frame was refused')
  return { lastSeq: last.lastSeq }
}
