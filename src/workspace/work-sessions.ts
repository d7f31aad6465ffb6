import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import type { Ledger } from '../core/ledger.ts'
import {
  labels,
  MAIN,
  nextSession,
  type RestoreCommand,
  type WorkChange,
  type WorkCommand,
  type WorkSessions,
  type WorkState,
  type WorkStore,
  workStateOf,
} from '../core/work-sessions.ts'
import type { SessionView } from '../protocol/api.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { TooLargeToKeep } from './known-files.ts'
import { writeBranches } from './repository.ts'
import type { MadeCheckpoint, RestoreReport, Workspace } from './workspace.ts'

export interface WorkSessionsDependencies {
  store: WorkStore
  ledger: Pick<Ledger, 'append'>
  workspace: Workspace
  workspaceId: string
  dataDir: string
  clock: Clock
  log: { error(details: object, message: string): void }
  /** Keeps other processes from changing the same files; null when one does. The system lets go should we end. */
  hold(): (() => void) | null
}

export interface HeldWorkSessions extends WorkSessions {
  /** Finishes, or takes back, what a process that was killed had begun (W5). */
  recover(): Promise<void>
}

type CheckpointFrame = FrameDraft<'workspace.checkpoint'>

export function createWorkSessions(deps: WorkSessionsDependencies): HeldWorkSessions {
  const { store, workspace, workspaceId, dataDir, clock, log } = deps
  const inOrder = createOrder()
  let looking: Promise<void> | null = null

  async function stateOf(tenant: string, id: ConversationId): Promise<WorkState> {
    const state = workStateOf(await store.rows(tenant, id))
    if (state.workspaceId === workspaceId) return state
    throw new WaymarkError(
      'workspace_not_here',
      `The files of this conversation are in the workspace ${state.workspaceId}; this server has ${workspaceId}.`,
    )
  }

  async function begun(
    tenant: string,
    id: ConversationId,
  ): Promise<WorkState & { main: string; tip: string }> {
    await start(tenant, id)
    const state = await stateOf(tenant, id)
    const { main, tip } = state
    if (main === null || tip === null) throw new Error(`${id} has no first checkpoint`)
    return { ...state, main, tip }
  }

  async function take(
    session: string,
    label: string,
    parents: string[],
  ): Promise<[MadeCheckpoint, CheckpointFrame]> {
    const made = await asked(workspace.checkpoint({ label, parents, time: clock.now() }))
    return [made, frameOf(made, session, label)]
  }

  /** On `main`, or for a fork on its first session, behind what it inherits: that is approved or not as it was. */
  async function firstCheckpoint(state: WorkState): Promise<[MadeCheckpoint, CheckpointFrame]> {
    return state.tip === null
      ? await take(MAIN, labels.initial, [])
      : await take(state.session, labels.initial, [state.tip])
  }

  function start(tenant: string, id: ConversationId): Promise<void> {
    return inOrder(id, async () => {
      const state = await stateOf(tenant, id)
      if (state.hasBegun) return
      const [, frame] = await firstCheckpoint(state)
      const appended = await deps.ledger.append({ tenant, conversationId: id, run: null, frames: [frame] })
      if (!appended.ok) throw new WaymarkError(appended.refusal, 'The conversation has gone.')
      await follow(tenant, id)
    })
  }

  async function follow(tenant: string, id: ConversationId): Promise<void> {
    const { heads, session } = await stateOf(tenant, id)
    writeBranches(dataDir, id, { heads, current: session })
  }

  /** Holds the workspace while `work` is done, and lets go of it with the frames that it answers. */
  async function change<T>(
    wanted: Pick<WorkChange, 'kind' | 'target' | 'paths'>,
    { tenant, conversationId, by, idempotency }: WorkCommand,
    work: (change: WorkChange) => Promise<{ frames: FrameDraft[]; answer: T }>,
  ): Promise<T> {
    const release = deps.hold()
    if (!release) throw new WaymarkError('workspace_busy', 'Files are being put back here already.')
    try {
      await finishPending()
      const id = randomBytes(8).toString('hex')
      const who = { tenant, conversationId, by, idempotency: idempotency ?? null }
      const begunChange: WorkChange = { id, ...who, safety: null, ...wanted }
      const earlier = await store.begin(workspaceId, begunChange)
      if (earlier) return earlier.repeated as T
      const done = await work(begunChange)
        .then(async (finished) => {
          await store.finish(workspaceId, begunChange, finished)
          return finished
        })
        .catch(async (error: unknown) => {
          await takeBack(begunChange)
          throw error
        })
      await followOrSay(tenant, conversationId)
      return done.answer
    } finally {
      release()
    }
  }

  /** It has happened, whether the repository can say so now or only after the next checkpoint. */
  async function followOrSay(tenant: string, id: ConversationId): Promise<void> {
    await follow(tenant, id).catch((error: unknown) => {
      log.error({ err: error, conversation: id }, 'the repository of a conversation could not be written')
    })
  }

  /** Puts back what was there before the change began, and lets go of the workspace. */
  async function takeBack(begunChange: WorkChange): Promise<void> {
    const { safety } = begunChange
    if (safety) {
      const now = await workspace.checkpoint({
        label: labels.beforeRestore,
        parents: [safety.id],
        time: clock.now(),
      })
      await workspace.restore({ target: safety.id, safety: now.id, paths: null })
    }
    await store.abandon(workspaceId, begunChange)
  }

  async function finishPending(): Promise<void> {
    const pending = await store.pending(workspaceId)
    if (!pending) return
    const { tenant, conversationId, safety } = pending
    if (!safety) return await store.abandon(workspaceId, pending)
    try {
      const done = pending.kind === 'reset' ? await resetFiles(pending) : await restoreFiles(pending)
      await store.finish(workspaceId, pending, done)
      await followOrSay(tenant, conversationId)
    } catch (error) {
      if (!(error instanceof WaymarkError) || error.code !== 'conversation_not_found') throw error
      // Its conversation was deleted meanwhile: the files are as they were asked to be, and nobody is to be told.
      await store.abandon(workspaceId, pending)
    }
  }

  async function noteSafety(begunChange: WorkChange, made: MadeCheckpoint): Promise<void> {
    begunChange.safety = made
    await store.note(workspaceId, begunChange)
  }

  async function putBack({ target, safety, paths }: WorkChange): Promise<RestoreReport> {
    if (target === null || safety === null) throw new Error('a change has no target')
    return await asked(workspace.restore({ target, safety: safety.id, paths }))
  }

  async function restoreFiles(begunChange: WorkChange) {
    const { tenant, conversationId, target, safety } = begunChange
    const { session } = await stateOf(tenant, conversationId)
    const report = await putBack(begunChange)
    if (target === null || safety === null) throw new Error('a restore has no target')
    const [made, frame] = await take(session, labels.restoredTo(target), [safety.id])
    const ids = { restored_to: target, new_checkpoint: made.id, safety_checkpoint: safety.id }
    const { restored, deleted, skipped } = report
    const counts = { restored: restored.length, deleted: deleted.length }
    const frames: FrameDraft[] = [
      frameOf(safety, session, labels.beforeRestore),
      frame,
      { kind: 'workspace.restored', ...ids, ...counts, skipped },
    ]
    return { frames, answer: { ...ids, ...report } }
  }

  async function resetFiles(begunChange: WorkChange) {
    const { tenant, conversationId, target, safety } = begunChange
    const { session } = await stateOf(tenant, conversationId)
    const report = await putBack(begunChange)
    if (target === null || safety === null) throw new Error('a reset has no target')
    const opened = nextSession(session)
    const { skipped } = report
    const done = { reset_to: target, new_session: opened, pre_reset_checkpoint: safety.id, skipped }
    const frames: FrameDraft[] = [
      frameOf(safety, session, labels.beforeReset),
      { kind: 'session.reset', ...done, closed_session: session },
    ]
    return { frames, answer: { ...done, ...report } }
  }

  async function preview({ tenant, conversationId, checkpointId, paths }: RestoreCommand) {
    await stateOf(tenant, conversationId)
    const target = await store.findCheckpoint(tenant, conversationId, checkpointId)
    const report = await asked(workspace.preview({ target, paths }))
    return { restored_to: target, new_checkpoint: null, safety_checkpoint: null, ...report }
  }

  return {
    start,
    follow,
    beforeMessage: ({ tenant, conversationId, content }) =>
      inOrder(conversationId, async () => {
        const rows = await store.rows(tenant, conversationId)
        // A conversation that is about no files.
        if (rows.workspaceId === null) return null
        const state = await stateOf(tenant, conversationId)
        const frames: CheckpointFrame[] = []
        let { tip } = state
        if (!state.hasBegun) {
          const [made, frame] = await firstCheckpoint(state)
          frames.push(frame)
          tip = made.id
        }
        const [made, frame] = await take(
          state.session,
          labels.beforeMessage(content),
          tip === null ? [] : [tip],
        )
        frames.push(frame)
        return { checkpointId: made.id, workSession: state.session, frames }
      }),
    afterRun() {
      looking ??= lookAfter().finally(() => (looking = null))
    },
    async session(tenant, id) {
      const state = await begun(tenant, id)
      const changed = await asked(workspace.differences(state.main, null))
      return sessionView(state, changed)
    },
    async approve(command) {
      const { tenant, conversationId, message } = command
      await begun(tenant, conversationId)
      return await change({ kind: 'approve', target: null, paths: null }, command, async () => {
        const { session, main, tip } = await begun(tenant, conversationId)
        const [now, frame] = await take(session, labels.beforeApproval, [tip])
        // What the last checkpoint has already needs no other.
        const approved = now.changed === 0 ? tip : now.id
        const label = labels.approved(message ?? session)
        const commits = await asked(workspace.countSince(main, approved))
        const parents = [main, approved]
        const merged = await asked(workspace.merge({ of: approved, parents, label, time: clock.now() }))
        const opened = nextSession(session)
        const frames: FrameDraft[] = [
          ...(now.changed === 0 ? [] : [frame]),
          frameOf({ ...now, id: merged }, MAIN, label),
          {
            kind: 'session.approved',
            approved_commit: merged,
            closed_session: session,
            new_session: opened,
            commits_approved: commits,
            ...(message === null ? {} : { message }),
          },
        ]
        return { frames, answer: { approved_commit: merged, new_session: opened, commits_approved: commits } }
      })
    },
    async reset(command) {
      const { tenant, conversationId } = command
      const { main } = await begun(tenant, conversationId)
      return await change({ kind: 'reset', target: main, paths: null }, command, async (begunChange) => {
        const { session, tip } = await begun(tenant, conversationId)
        const [made] = await take(session, labels.beforeReset, [tip])
        await noteSafety(begunChange, made)
        return await resetFiles(begunChange)
      })
    },
    async restore(command) {
      const { tenant, conversationId, checkpointId, paths } = command
      await begun(tenant, conversationId)
      if (command.dryRun) return await preview(command)
      const target = await store.findCheckpoint(tenant, conversationId, checkpointId)
      return await change({ kind: 'restore', target, paths }, command, async (begunChange) => {
        const { session, tip } = await begun(tenant, conversationId)
        const [made] = await take(session, labels.beforeRestore, [tip])
        await noteSafety(begunChange, made)
        return await restoreFiles(begunChange)
      })
    },
    checkpoints: (query) => store.checkpoints(query),
    edits: (query) => store.edits(query),
    async checkpoint(tenant, id, checkpointId) {
      await stateOf(tenant, id)
      const found = await store.findCheckpoint(tenant, id, checkpointId)
      return { checkpoint_id: found, left_out: await asked(workspace.leftOut(found)) }
    },
    async diff({ tenant, conversationId, from, to, path }) {
      const { main } = await begun(tenant, conversationId)
      const find = (id: string) => store.findCheckpoint(tenant, conversationId, id)
      const base = from === null ? main : await find(from)
      const other = to === null ? null : await find(to)
      return { from: base, to: other, files: await asked(workspace.diff(base, other, path)) }
    },
    async recover() {
      const release = deps.hold()
      // Whoever has it sees to it.
      if (!release) return
      try {
        await finishPending()
      } finally {
        release()
      }
    },
  }

  async function lookAfter(): Promise<void> {
    try {
      const missed = await workspace.verifyWatching()
      if (missed.length > 0) {
        log.error({ files: missed.slice(0, 10), count: missed.length }, 'changes of files were not noticed')
      }
      await workspace.tidy()
    } catch (error) {
      log.error({ err: error }, 'the checkpoints could not be looked after')
    }
  }
}

/** What went wrong with files is told to whoever asked (W7). */
async function asked<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    if (cause instanceof WaymarkError || cause instanceof TooLargeToKeep) throw cause
    throw new WaymarkError('snapshot_failed', `The files could not be saved: ${(cause as Error).message}`, {
      cause,
    })
  }
}

function frameOf(made: MadeCheckpoint, session: string, label: string): CheckpointFrame {
  const { id: checkpoint_id, files, changed, excluded } = made
  return {
    kind: 'workspace.checkpoint',
    checkpoint_id,
    work_session: session,
    label,
    files,
    changed,
    excluded,
  }
}

function sessionView(state: WorkState, changed: SessionView['changed_files']): SessionView {
  return {
    active_session: state.session,
    session_ref: `refs/heads/${state.session}`,
    has_unapproved: changed.length > 0,
    last_approved_at: state.lastApprovedAt,
    changed_files: changed,
    sessions: state.sessions.map((session) => ({
      name: session.name,
      ref: session.ref,
      status: session.status,
      created_at: session.createdAt,
      closed_at: session.closedAt,
      approved_commit: session.approvedCommit,
      checkpoint_count: session.checkpointCount,
    })),
  }
}

/** One thing at a time for each conversation. */
function createOrder() {
  const turns = new Map<string, Promise<unknown>>()
  return function inOrder<T>(id: string, work: () => Promise<T>): Promise<T> {
    const next = (turns.get(id) ?? Promise.resolve()).then(work, work)
    const settled = next
      .catch(() => {})
      .then(() => {
        if (turns.get(id) === settled) turns.delete(id)
      })
    turns.set(id, settled)
    return next
  }
}
