import type { NewCommit } from '../../../core/work-sessions.ts'
import { audit } from '../conversations/audit.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

export interface Approval {
  checkpointId: string
  at: string
}

/** Older approvals are taken as committed. */
const MOST_APPROVALS = 200
const MOST_COMMITS = 500

/** The last approval in the workspace. */
export function* approvedIn(dialect: Dialect, workspaceId: string): Script<Approval | null> {
  return (yield* approvals(dialect, workspaceId, 1))[0] ?? null
}

/** The approvals, and the commits of approved files to this branch, newest first. */
export function* approvalsToCommit(
  dialect: Dialect,
  { workspaceId, branch }: { workspaceId: string; branch: string | null },
): Script<{ items: Approval[]; commits: { approved: string; commit: string }[] }> {
  const items = yield* approvals(dialect, workspaceId, MOST_APPROVALS)
  const rows = yield* all(
    dialect.db
      .selectFrom('audit as a')
      .innerJoin('conversations as c', 'c.id', 'a.conversation_id')
      .select('a.details')
      .where('c.workspace_id', '=', workspaceId)
      .where('a.action', '=', 'files.committed')
      .orderBy('a.no', 'desc')
      .limit(MOST_COMMITS),
  )
  const commits = rows
    .map(({ details }) => JSON.parse(details) as CommitDetails)
    .filter((one) => one.branch === branch)
    .map(({ approved_commit, commit }) => ({ approved: approved_commit, commit }))
  return { items, commits }
}

interface CommitDetails {
  approved_commit: string
  commit: string
  branch: string
}

export function* noteCommit(dialect: Dialect, done: NewCommit & { now: number }): Script<void> {
  const { tenant, by, now, conversationId, approved, commit, branch } = done
  const details = { approved_commit: approved, commit, branch } satisfies CommitDetails
  yield* audit(dialect, { tenant, by, at: now, action: 'files.committed', conversationId, details })
}

/** Newest first. */
function* approvals({ db }: Dialect, workspaceId: string, limit: number): Script<Approval[]> {
  return yield* all(
    db
      .selectFrom('session_closings as s')
      .innerJoin('conversations as c', 'c.id', 's.conversation_id')
      .select(['s.checkpoint_id as checkpointId', 's.created_at as at'])
      .where('c.workspace_id', '=', workspaceId)
      .where('c.deleted_at', 'is', null)
      .where('s.status', '=', 'merged')
      .orderBy('s.created_at', 'desc')
      .orderBy('s.segment', 'desc')
      .orderBy('s.seq', 'desc')
      .limit(limit),
  )
}
