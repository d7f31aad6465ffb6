import type { CheckpointEvent, EditEvent, EditSource } from '../../../core/work-sessions.ts'
import type { ConversationId } from '../../../protocol/ids.ts'
import type { Dialect } from '../dialect.ts'
import { all, first, type Script } from '../script.ts'

/** Everything that conversations have done to the files of a workspace, for blame. */

const MOST_EVENTS = 50_000
const MOST_CREATIONS = 50
const MESSAGE_CHARACTERS = 200

/** Restated checkpoints keep the id of the first, which comes first. */
export function* checkpointEvents({ db }: Dialect, workspaceId: string): Script<CheckpointEvent[]> {
  const rows = yield* all(
    db
      .selectFrom('checkpoints as k')
      .innerJoin('conversations as c', 'c.id', 'k.conversation_id')
      .select([
        'k.conversation_id as conversationId',
        'c.tenant_id as tenant',
        'k.segment',
        'k.seq as eventNumber',
        'k.run_id as runId',
        'k.created_at as at',
        'k.checkpoint_id as checkpointId',
        'k.label',
      ])
      .where('c.workspace_id', '=', workspaceId)
      .orderBy('k.created_at')
      .orderBy('k.segment')
      .orderBy('k.seq')
      .limit(MOST_EVENTS),
  )
  return rows.map((row) => ({ ...row, conversationId: row.conversationId as ConversationId }))
}

/** An edit whose diff is compressed. */
export type StoredEdit = Omit<EditEvent, 'diff'> & { diff: Uint8Array | null }

export function* editEvents(
  dialect: Dialect,
  { workspaceId, paths }: { workspaceId: string; paths: readonly string[] },
): Script<StoredEdit[]> {
  const { isIn, list } = dialect
  const rows = yield* all(
    editsIn(dialect, workspaceId)
      .where(isIn('e.path', list(paths)))
      .orderBy('e.created_at')
      .orderBy('e.segment')
      .orderBy('e.seq')
      .limit(MOST_EVENTS),
  )
  return rows.map(asEdit)
}

/** Edits that created files, newest first. */
export function* creations(
  dialect: Dialect,
  { workspaceId, since, until }: { workspaceId: string; since: string; until: string | null },
): Script<StoredEdit[]> {
  const rows = yield* all(
    editsIn(dialect, workspaceId)
      .where('e.change', '=', 'added')
      .where('e.created_at', '>=', since)
      .$if(until !== null, (found) => found.where('e.created_at', '<=', until ?? ''))
      .orderBy('e.created_at', 'desc')
      .limit(MOST_CREATIONS),
  )
  return rows.map(asEdit)
}

function editsIn({ db }: Dialect, workspaceId: string) {
  return db
    .selectFrom('file_edits as e')
    .innerJoin('conversations as c', 'c.id', 'e.conversation_id')
    .select([
      'e.conversation_id as conversationId',
      'c.tenant_id as tenant',
      'e.segment',
      'e.seq as eventNumber',
      'e.run_id as runId',
      'e.created_at as at',
      'e.tool_call_id as toolCallId',
      'e.path',
      'e.change',
      'e.diff',
      'e.previous_checkpoint as previousCheckpoint',
    ])
    .where('c.workspace_id', '=', workspaceId)
}

function asEdit<T extends { conversationId: string }>(row: T): T & { conversationId: ConversationId } {
  return { ...row, conversationId: row.conversationId as ConversationId }
}

/** The message, the call and the agent of each of these edits. */
export function* editSources(
  dialect: Dialect,
  edits: readonly { segment: number; eventNumber: number; runId: string | null; toolCallId: string | null }[],
): Script<EditSource[]> {
  const sources: EditSource[] = []
  for (const edit of edits) sources.push(yield* sourceOf(dialect, edit))
  return sources
}

function* sourceOf(
  { db }: Dialect,
  edit: { segment: number; eventNumber: number; runId: string | null; toolCallId: string | null },
): Script<EditSource> {
  const message =
    edit.runId === null
      ? undefined
      : yield* first(
          db
            .selectFrom('messages')
            .select(['message_id', 'segment', 'seq'])
            .where('run_id', '=', edit.runId)
            .where('role', '=', 'user')
            .limit(1),
        )
  // A run is on one segment, so its frames are between its message and the edit.
  const from = message?.segment === edit.segment ? message.seq : 0
  const within = db
    .selectFrom('events')
    .select('frame')
    .where('segment', '=', edit.segment)
    .where('seq', '>=', from)
    .where('seq', '<=', edit.eventNumber)
    .orderBy('seq', 'desc')
  const ofCall =
    edit.toolCallId === null ? '%' : `%${JSON.stringify(edit.toolCallId).replaceAll(/[%_\\]/g, '_')}%`
  const status = yield* first(
    within.where('frame', 'like', '%"kind":"tool.status"%').where('frame', 'like', ofCall).limit(1),
  )
  const named = yield* first(within.where('frame', 'like', '%"kind":"agent.updated"%').limit(1))
  const sent = message
    ? yield* first(
        db
          .selectFrom('events')
          .select('frame')
          .where('segment', '=', message.segment)
          .where('seq', '=', message.seq),
      )
    : undefined
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  const { tool = {} } = fieldsOf(status?.frame) as { tool?: Record<string, unknown> }
  const name = text(tool.name)
  // Only calls of hosted agents have a kind; their names begin with the agent's.
  const hosted = tool.kind === undefined ? null : (name?.split('__')[0] ?? null)
  return {
    messageId: message?.message_id ?? null,
    message: text(fieldsOf(sent?.frame).content)?.slice(0, MESSAGE_CHARACTERS) ?? null,
    tool: edit.toolCallId === null ? null : name,
    agent: text(fieldsOf(named?.frame).to_agent) ?? hosted,
  }
}

/** Large frames are in blobs, and their rows have only the beginning. */
function fieldsOf(frame: string | undefined): Record<string, unknown> {
  try {
    return JSON.parse(frame ?? '{}') as Record<string, unknown>
  } catch {
    return {}
  }
}
