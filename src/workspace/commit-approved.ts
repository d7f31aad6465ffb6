import { join } from 'node:path'
import { type CommitApprovedCommand, labels, type WorkStore } from '../core/work-sessions.ts'
import { branchOf, commitFiles, lastContained } from '../git/commit-files.ts'
import { CommitRefused } from '../git/commit-refused.ts'
import { GitFailed } from '../git/git.ts'
import type { RunHook } from '../git/hooks.ts'
import type { Committed } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { Workspace } from './workspace.ts'
import { translated } from './workspace-failure.ts'

const SUBJECT = 72
const MOST_MESSAGES = 20
/** Only this many recent commits are looked for in the branch. */
const MOST_COMMITS = 20

type ProposalStore = Pick<WorkStore, 'checkpoints'>

/** Commits the files approved since the last commit to the user's repository, or shows what it would commit. */
export async function commitApproved(
  deps: {
    store: ProposalStore & Pick<WorkStore, 'approvalsToCommit' | 'noteCommit'>
    workspace: Pick<Workspace, 'approvedFiles'>
    workspaceId: string
    /** The last approved state that the conversation sees: its first checkpoint before any approval. */
    approvedState(): Promise<string>
    root: string
    dataDir: string
    path: string
    hookRunner(): RunHook
    now: number
  },
  command: CommitApprovedCommand,
): Promise<Committed> {
  const { tenant, conversationId, by, message, branch, dryRun, withCurrent, runHooks } = command
  const { store, workspace, workspaceId, root, dataDir, path, hookRunner, now } = deps
  const { items, since } = await toCommit(deps)
  const [last] = items
  if (!last && since === null && !withCurrent)
    throw new WaymarkError('commit_refused', 'Nothing has been approved yet.')
  const approvals = items.map(({ checkpointId }) => checkpointId)
  const base = since ?? (last ? null : await deps.approvedState())
  const found = await translated(workspace.approvedFiles({ approvals, since: base, withCurrent }))
  if (found.length === 0)
    throw new WaymarkError(
      'commit_refused',
      'No approval since the last commit changed a file. Approve changes first, then commit.',
    )
  const proposed = message ?? (await proposal(store, command, since))
  try {
    const { hooks, ...done } = await commitFiles({
      root,
      files: found.map(({ body, before, ...file }) => ({
        ...file,
        body: Buffer.from(body),
        before: before.map((one) => one && { ...one, body: Buffer.from(one.body) }),
      })),
      approvedAt: withCurrent || !last ? now : Date.parse(last.at),
      message: proposed,
      branch,
      isDryRun: dryRun,
      runHook: runHooks ? hookRunner() : null,
      path,
      scratch: join(dataDir, 'tmp'),
      now,
    })
    const approved = last?.checkpointId ?? base ?? ''
    if (done.commit !== null) {
      const commit = { commit: done.commit, branch: done.branch }
      await store.noteCommit({ tenant, conversationId, by, workspaceId, approved, ...commit })
    }
    return {
      ...done,
      approved_commit: approved,
      is_new_branch: branch !== null,
      hooks: hooks.map(({ name, path: file, hasRun }) => ({ name, path: file, has_run: hasRun })),
    }
  } catch (error) {
    if (!(error instanceof CommitRefused || error instanceof GitFailed)) throw error
    throw new WaymarkError('commit_refused', error.message, { cause: error })
  }
}

/** The approvals since the last commit that the branch still has, newest first. */
async function toCommit({
  store,
  workspaceId,
  root,
  dataDir,
  path,
}: {
  store: Pick<WorkStore, 'approvalsToCommit'>
  workspaceId: string
  root: string
  dataDir: string
  path: string
}) {
  const { items, commits } = await store.approvalsToCommit(workspaceId, await branchOf(root))
  const ids = commits.slice(0, MOST_COMMITS).map(({ commit }) => commit)
  const kept = await lastContained(root, ids, { path, scratch: join(dataDir, 'tmp') })
  const since = commits.find(({ commit }) => commit === kept)?.approved ?? null
  const at = items.findIndex(({ checkpointId }) => checkpointId === since)
  return at < 0 ? { items, since: null } : { items: items.slice(0, at), since }
}

/** The last approval's message or the title, then what was asked for since the last commit. */
async function proposal(
  store: ProposalStore,
  { tenant, conversationId, title }: CommitApprovedCommand,
  since: string | null,
): Promise<string> {
  const { items } = await store.checkpoints({ tenant, conversationId, limit: 200, cursor: null })
  const end = items.findIndex((one) => one.checkpoint_id === since)
  const own = end < 0 ? items : items.slice(0, end)
  const asked = own
    .filter(({ label }) => labels.isOfMessage(label))
    .map(({ label }) => labels.messageIn(label))
    .toReversed()
  const approval = own.find(({ label }) => labels.isOfApproval(label))?.label ?? ''
  const said = /^Approved: (?!session_\d+$)(.*)/.exec(approval)?.[1]
  const subject = (said ?? title ?? asked[0] ?? 'Approved changes').slice(0, SUBJECT)
  const list = asked.slice(-MOST_MESSAGES).filter((text) => text !== subject)
  return list.length === 0 ? subject : `${subject}\n\n${list.map((text) => `- ${text}`).join('\n')}`
}
