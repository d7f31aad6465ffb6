import { type LinePart, partAt, partsBetween } from '../../../core/line.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { checkpointAt } from '../lines/place.ts'
import type { Refusable } from '../refusal.ts'
import { all, type Script } from '../script.ts'

export interface StoredFilesAt {
  checkpointId: string | null
  edits: { path: string; change: string; diff: Uint8Array | null }[]
}

/** The checkpoint with the files as they were at an event; in the middle of a run, also its tools' edits up to that event. */
export function* filesAt(
  dialect: Dialect,
  { tenant, id, at }: { tenant: string; id: ConversationId; at: number },
): Script<Refusable<StoredFilesAt>> {
  const found = yield* checkpointAt(dialect, { tenant, conversationId: id, at: { after: at } })
  if ('refused' in found) return found
  const { checkpointId, line, since } = found
  const own = since === null ? yield* checkpointOf(dialect, line, at) : null
  if (own !== null) return { checkpointId: own, edits: [] }
  const edits: StoredFilesAt['edits'] = []
  for (const part of since === null ? [] : partsBetween(line, since, at)) {
    edits.push(
      ...(yield* all(
        dialect.db
          .selectFrom('file_edits')
          .select(['path', 'change', 'diff'])
          .where('segment', '=', part.segment)
          .where('seq', '>=', part.from)
          .where('seq', '<=', part.to)
          .orderBy('seq'),
      )),
    )
  }
  return { checkpointId, edits }
}

/** The checkpoint created by this event; null if there is none, or if the event only restates an earlier one. */
function* checkpointOf({ db }: Dialect, line: readonly LinePart[], at: number): Script<string | null> {
  const segment = partAt(line, at)?.segment
  if (segment === undefined) return null
  const [made] = yield* all(
    db.selectFrom('checkpoints').select('checkpoint_id').where('segment', '=', segment).where('seq', '=', at),
  )
  if (!made) return null
  const before = yield* all(
    db
      .selectFrom('checkpoints')
      .select('seq')
      .where('checkpoint_id', '=', made.checkpoint_id)
      .where((eb) =>
        eb.or([eb('segment', '<', segment), eb.and([eb('segment', '=', segment), eb('seq', '<', at)])]),
      )
      .limit(1),
  )
  return before.length > 0 ? null : made.checkpoint_id
}
