import { join } from 'node:path'
import { type CommitApprovedCommand, labels, type WorkStore } from '../core/work-sessions.ts'
import { CommitRefused, commitFiles } from '../git/commit-files.ts'
import { GitFailed } from '../git/git.ts'
import type { Committed } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { Workspace } from './workspace.ts'
import { translated } from './workspace-failure.ts'

const SUBJECT = 72
const MOST_MESSAGES = 20

/** Commits the files of the last approval to the user's repository, or shows what it would commit. */
export async function commitApproved(
  deps: {
    store: Pick<WorkStore, 'approvedIn' | 'checkpoints'>
    workspace: Pick<Workspace, 'approvedFiles'>
    workspaceId: string
    root: string
    dataDir: string
    path: string
    now: number
  },
  { tenant, conversationId, title, message, branch, dryRun }: CommitApprovedCommand,
): Promise<Committed> {
  const { store, workspace, workspaceId, root, dataDir, path, now } = deps
  const approved = await store.approvedIn(workspaceId)
  if (!approved) throw new WaymarkError('commit_refused', 'Nothing has been approved yet.')
  const files = await translated(workspace.approvedFiles(approved.checkpointId))
  const proposed =
    message ?? (await proposal(store, { tenant, conversationId, title }, approved.checkpointId))
  try {
    const done = await commitFiles({
      root,
      files: files.map(({ before, ...file }) => ({
        ...file,
        body: Buffer.from(file.body),
        before: before && { ...before, body: Buffer.from(before.body) },
      })),
      approvedAt: Date.parse(approved.at),
      message: proposed,
      branch,
      isDryRun: dryRun,
      path,
      scratch: join(dataDir, 'tmp'),
      now,
    })
    return {
      ...done,
      approved_commit: approved.checkpointId,
      message: proposed,
      is_new_branch: branch !== null,
    }
  } catch (error) {
    if (!(error instanceof CommitRefused || error instanceof GitFailed)) throw error
    throw new WaymarkError('commit_refused', error.message, { cause: error })
  }
}

/** The title or the approval's message, then what was asked for in the work session. */
async function proposal(
  store: Pick<WorkStore, 'checkpoints'>,
  { tenant, conversationId, title }: Pick<CommitApprovedCommand, 'tenant' | 'conversationId' | 'title'>,
  approved: string,
): Promise<string> {
  const { items } = await store.checkpoints({ tenant, conversationId, limit: 200, cursor: null })
  const at = items.findIndex((one) => one.checkpoint_id === approved)
  const own = at < 0 ? [] : items.slice(at + 1)
  const session = own.find(({ work_session }) => work_session !== 'main')?.work_session
  const asked = own
    .filter(({ work_session, label }) => work_session === session && labels.isOfMessage(label))
    .map(({ label }) => label.replace(/^Before user message: /, ''))
    .toReversed()
  const said = at < 0 ? null : /^Approved: (?!session_\d+$)(.*)/.exec(items[at]?.label ?? '')?.[1]
  const subject = (said ?? title ?? asked[0] ?? 'Approved changes').slice(0, SUBJECT)
  const list = asked.slice(-MOST_MESSAGES).filter((text) => text !== subject)
  return list.length === 0 ? subject : `${subject}\n\n${list.map((text) => `- ${text}`).join('\n')}`
}
