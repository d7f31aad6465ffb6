import { randomBytes } from 'node:crypto'
import {
  labels,
  nextSession,
  type WorkChange,
  type WorkCommand,
  type WorkState,
} from '../core/work-sessions.ts'
import type { ResetDone, Restored } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { asked } from './asked.ts'
import { type CheckpointFrame, frameOf, type WorkSessionsDependencies } from './work-sessions.ts'
import type { MadeCheckpoint, RestoreReport } from './workspace.ts'

/**
 * Restore, reset and approve: each holds its workspace in the database from its beginning to the frame that tells of it, so
 * that no run begins meanwhile (W8), and that whoever comes after a crash knows what to finish (W5).
 *
 *   begun ──► safety noted ──► files put back ──► frames stored, let go of
 *     │            │                  │
 *     └─ killed: let go of            └─ killed: put back again, the same way
 */
export interface FileChanges {
  /** A change that touches no files. */
  carryOut<T>(
    kind: WorkChange['kind'],
    command: WorkCommand,
    work: (change: WorkChange) => Promise<Done<T>>,
  ): Promise<T>
  putBack<K extends 'restore' | 'reset'>(
    kind: K,
    command: WorkCommand,
    /** What is wanted; asked for when the workspace is held. */
    wanted: () => Promise<Wanted>,
  ): Promise<K extends 'reset' ? ResetDone : Restored>
  recover(): Promise<void>
}

interface Done<T> {
  frames: FrameDraft[]
  answer: T
}

interface Safety {
  session: string
  label: string
  parents: string[]
}

interface Wanted {
  target: string
  paths: string[] | null
  safety: Safety & { state: WorkState }
}

export interface FileChangesDependencies extends WorkSessionsDependencies {
  take(
    state: Pick<WorkState, 'lastNumber'>,
    wanted: Safety,
  ): Promise<{ made: MadeCheckpoint; frame: CheckpointFrame }>
  follow(tenant: string, id: ConversationId): Promise<void>
}

/** A change whose files may have been touched. */
type Safe = WorkChange & { target: string; safety: CheckpointFrame }

export function createFileChanges(deps: FileChangesDependencies): FileChanges {
  const { store, workspace, workspaceId, take, log } = deps

  async function carryOut<T>(
    kind: WorkChange['kind'],
    { tenant, conversationId, by, idempotency }: WorkCommand,
    work: (change: WorkChange) => Promise<Done<T>>,
  ): Promise<T> {
    const release = deps.hold()
    if (!release) throw new WaymarkError('workspace_busy', 'Files are being put back here already.')
    try {
      await finishPending()
      const id = randomBytes(8).toString('hex')
      const who = { tenant, conversationId, by, idempotency: idempotency ?? null }
      const change: WorkChange = { id, kind, ...who, target: null, paths: null, safety: null }
      const earlier = await store.begin(workspaceId, change)
      if (earlier) return earlier.repeated as T
      const { answer } = await doAndStore(change, work)
      await followOrSay(change)
      await filesChanged()
      return answer
    } finally {
      release()
    }
  }

  async function doAndStore<T>(
    change: WorkChange,
    work: (change: WorkChange) => Promise<Done<T>>,
  ): Promise<Done<T>> {
    try {
      const done = await work(change)
      await store.finish(workspaceId, change, done)
      return done
    } catch (error) {
      await takeBack(change)
      throw error
    }
  }

  /** Takes back what was done to files, and nothing that others have done since; then lets go of the workspace. */
  async function takeBack(change: WorkChange): Promise<void> {
    if (isSafe(change)) {
      const { target, safety, paths } = change
      await workspace.undo({ target, safety: safety.checkpoint_id, paths })
    }
    await store.abandon(workspaceId, change)
  }

  /** It has happened, whether the repository can say so now or only after the next checkpoint. */
  async function followOrSay({ tenant, conversationId }: WorkChange): Promise<void> {
    await deps.follow(tenant, conversationId).catch((error: unknown) => {
      log.error({ err: error, conversation: conversationId }, 'a repository could not be written')
    })
  }

  /** The index follows (W9); should it not be able to, it does before the next question. */
  async function filesChanged(): Promise<void> {
    await deps.onFilesChanged?.(workspaceId).catch((error: unknown) => {
      log.error({ err: error }, 'the index could not be brought up to date')
    })
  }

  async function finishPending(): Promise<void> {
    const pending = await store.pending(workspaceId)
    if (!pending) return
    if (!isSafe(pending)) return await store.abandon(workspaceId, pending)
    const wanted = [pending.target, pending.safety.checkpoint_id]
    if (!(await asked(workspace.has(wanted)))) {
      // The store was lost: nobody can finish it any more, nor take it back.
      log.error(
        { change: pending.id, kind: pending.kind },
        'a change of files can not be finished: its checkpoints are gone',
      )
      return await store.abandon(workspaceId, pending)
    }
    const done = await putFilesBack(pending)
    try {
      await store.finish(workspaceId, pending, done)
      await followOrSay(pending)
    } catch (error) {
      if (!(error instanceof WaymarkError) || error.code !== 'conversation_not_found') throw error
      // Deleted meanwhile: the files are as they were asked to be, and nobody is to be told.
      await store.abandon(workspaceId, pending)
    }
  }

  /** From what the change itself says, so that it can be done again, also when its conversation has gone. */
  async function putFilesBack(change: Safe): Promise<Done<unknown>> {
    const { target, safety, paths, kind } = change
    const label = labels.restoredTo(target)
    const behind = kind === 'reset' ? {} : { behind: { label, time: deps.clock.now() } }
    const restored = await asked(
      workspace.restore({ target, safety: safety.checkpoint_id, paths, ...behind }),
    )
    const { made, ...report } = restored
    return made
      ? restoreDone(change, report, frameOf(made, safety.work_session, label, (safety.number ?? 0) + 1))
      : resetDone(change, report)
  }

  function resetDone({ target, safety }: Safe, report: RestoreReport): Done<ResetDone> {
    const { work_session: closed_session, checkpoint_id: pre_reset_checkpoint } = safety
    const done = { reset_to: target, new_session: nextSession(closed_session), pre_reset_checkpoint }
    const { skipped } = report
    return {
      frames: [safety, { kind: 'session.reset', ...done, closed_session, skipped }],
      answer: { ...done, ...report },
    }
  }

  function restoreDone(
    { target, safety }: Safe,
    report: RestoreReport,
    frame: CheckpointFrame,
  ): Done<Restored> {
    const ids = {
      restored_to: target,
      new_checkpoint: frame.checkpoint_id,
      safety_checkpoint: safety.checkpoint_id,
    }
    const { restored, deleted, skipped } = report
    const counts = { restored: restored.length, deleted: deleted.length }
    return {
      frames: [safety, frame, { kind: 'workspace.restored', ...ids, ...counts, skipped }],
      answer: { ...ids, ...report },
    }
  }

  return {
    carryOut,
    putBack: (kind, command, wanted) =>
      carryOut(kind, command, async (change) => {
        const { target, paths, safety } = await wanted()
        const { frame } = await take(safety.state, safety)
        const safe: Safe = Object.assign(change, { target, paths, safety: frame })
        await store.note(workspaceId, safe)
        return (await putFilesBack(safe)) as Done<never>
      }),
    async recover() {
      // Nobody is kept from the workspace for a look at nothing.
      if (!(await store.pending(workspaceId))) return
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
}

function isSafe(change: WorkChange): change is Safe {
  return change.target !== null && change.safety !== null
}
