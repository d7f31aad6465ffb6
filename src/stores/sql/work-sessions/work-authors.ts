import { sql } from 'kysely'
import { type DoneSince, labels } from '../../../core/work-sessions.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

/** Attributes changes in a workspace to conversations: all conversations in a workspace share its files. */

/** Reads at most this many checkpoints; older changes are attributed by the tools' edits alone. */
const MOST_CHECKPOINTS = 300
const MOST_EDITS = 20_000

export function* doneSince(
  { db, isIn, list }: Dialect,
  { workspaceId, since }: { workspaceId: string; since: string },
): Script<DoneSince> {
  const edits = yield* all(
    db
      .selectFrom('file_edits as e')
      .innerJoin('conversations as c', 'c.id', 'e.conversation_id')
      .select(['c.id as conversationId', 'e.path'])
      .distinct()
      .where('c.workspace_id', '=', workspaceId)
      .where('e.created_at', '>=', since)
      .limit(MOST_EDITS),
  )
  const rows = yield* all(
    db
      .selectFrom('checkpoints as k')
      .innerJoin('conversations as c', 'c.id', 'k.conversation_id')
      .select(['c.id as conversationId', 'k.checkpoint_id as checkpointId', 'k.run_id', 'k.label'])
      .where('c.workspace_id', '=', workspaceId)
      .where('k.created_at', '>=', since)
      .orderBy('k.created_at', 'desc')
      .orderBy('k.segment', 'desc')
      .orderBy('k.seq', 'desc')
      .limit(MOST_CHECKPOINTS),
  )
  const before = new Set<string>([labels.beforeRestore, labels.beforeReset])
  const checkpoints = rows.toReversed().map(({ conversationId, checkpointId, run_id, label }) => ({
    conversationId,
    checkpointId,
    isBefore: run_id !== null || before.has(label),
  }))
  const ids = [...new Set([...edits, ...rows].map((row) => row.conversationId))]
  const names = yield* all(
    db
      .selectFrom('conversations as c')
      .select([
        'c.id as conversationId',
        'c.tenant_id as tenant',
        sql<
          string | null
        >`(select t.title from titles t where t.segment = c.head_segment order by t.seq desc limit 1)`.as(
          'title',
        ),
      ])
      .where(isIn('c.id', list(ids))),
  )
  return { edits, checkpoints, names }
}
