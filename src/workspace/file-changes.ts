import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  labels,
  nextSession,
  type WorkChange,
  type WorkCommand,
  type WorkState,
} from '../core/work-sessions.ts'
import type { Adopted, ResetDone, Restored } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { type CheckpointFrame, frameOf } from './checkpoint-frame.ts'
import type { MadeCheckpoint, RestoreReport } from './file-operations.ts'
import type { WorkSessionsDependencies } from './session-dependencies.ts'
import { translated } from './workspace-failure.ts'

/**
 * Restore, reset and approve. Each holds its workspace in the database from its start to its last frame, so that no run
 * starts meanwhile (W8) and the next process knows after a crash what to finish (W5).
 *
 *   begun ──► safety checkpoint stored ──► files restored ──► frames stored, workspace released
 *     │                 │                        │
 *     │                 │                        ├─ refused: undone, or failed when that is not possible
 *     └─ killed: released                        └─ killed: restored again in the same way
 *
 * A file in the data folder marks a change that may be finished later. It is removed before anything else when a change is
 * refused: removing a file works on a full disk, where a write to the database may fail.
 */
export interface FileChanges {
  /** Runs a change under the workspace's lock; `restore` is one that changes files. */
  runChange<T>(
    kind: WorkChange['kind'],
    command: WorkCommand,
    work: (change: WorkChange) => Promise<Done<T>>,
  ): Promise<T>
  restore<K extends 'restore' | 'reset' | 'adopt'>(
    kind: K,
    command: WorkCommand,
    /** Returns the target; called while the workspace is held. */
    wanted: () => Promise<Wanted>,
  ): Promise<K extends 'reset' ? ResetDone : K extends 'adopt' ? Adopted : Restored>
  /** Runs other work under the workspace's lock, without a change of its own. */
  hold<T>(command: WorkCommand, work: () => Promise<T>): Promise<T>
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
  spared?: { path: string; reason: string }[]
  /** Decides the rest once the safety checkpoint is taken. */
  after?: (
    safety: string,
  ) => Promise<Pick<Wanted, 'target' | 'paths' | 'spared'> & { adopted: WorkChange['adopted'] }>
  safety: Safety & { state: WorkState }
}

export interface FileChangesDependencies extends WorkSessionsDependencies {
  take(
    state: Pick<WorkState, 'lastNumber'>,
    wanted: Safety,
  ): Promise<{ made: MadeCheckpoint; frame: CheckpointFrame }>
  writeRepository(tenant: string, id: ConversationId): Promise<void>
}

/** A change whose files may have been touched. */
type Safe = WorkChange & { target: string; safety: CheckpointFrame }

export function createFileChanges(deps: FileChangesDependencies): FileChanges {
  const { store, workspace, workspaceId, dataDir, take, log } = deps

  async function runChange<T>(
    kind: WorkChange['kind'],
    { tenant, conversationId, by, idempotency, undoing }: WorkCommand,
    work: (change: WorkChange) => Promise<Done<T>>,
  ): Promise<T> {
    const release = takeHold()
    try {
      await finishPending()
      const who = { tenant, conversationId, by, idempotency: idempotency ?? null, undoing }
      const change = emptyChange(kind, who)
      const earlier = await store.begin(workspaceId, change)
      if (earlier) return earlier.repeated as T
      mark(change)
      const { answer } = await doAndStore(change, work)
      logSkipped(change, answer)
      await writeRepositoryOrLog(change)
      await filesChanged()
      return answer
    } finally {
      release()
    }
  }

  function takeHold(): () => void {
    const release = deps.hold()
    if (release) return release
    throw new WaymarkError(
      'workspace_busy',
      'Files are already being restored here. Try again when that has finished.',
    )
  }

  async function hold<T>({ tenant, conversationId, by }: WorkCommand, work: () => Promise<T>): Promise<T> {
    const release = takeHold()
    try {
      await finishPending()
      // It is abandoned whatever happens: the kind is never used.
      const change = emptyChange('approve', { tenant, conversationId, by, idempotency: null })
      await store.begin(workspaceId, change)
      try {
        return await work()
      } finally {
        await store.abandon(workspaceId, change)
      }
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
      rmSync(markOf(change), { force: true })
      return done
    } catch (error) {
      rmSync(markOf(change), { force: true })
      await undoChange(change, error as Error)
      throw error
    }
  }

  const markOf = ({ id }: WorkChange) => join(dataDir, 'tmp', `change-${id}`)

  function mark(change: WorkChange): void {
    mkdirSync(join(dataDir, 'tmp'), { recursive: true })
    writeFileSync(markOf(change), '')
  }

  /** Undoes the change's effect on files, but no changes made since; then releases the workspace. */
  async function undoChange(change: WorkChange, why: Error): Promise<void> {
    const isDiskFull = why instanceof WaymarkError && why.code === 'disk_full'
    if (!hasSafetyCheckpoint(change) || isDiskFull) return await store.abandon(workspaceId, change)
    const { target, safety, paths } = change
    try {
      await workspace.undo({ target, safety: safety.checkpoint_id, paths })
    } catch (error) {
      const details = {
        err: error,
        cause: why,
        safety: safety.checkpoint_id,
        conversation: change.conversationId,
      }
      log.error(details, 'a file change could be neither finished nor undone; restore its safety checkpoint')
      return await store.fail(
        workspaceId,
        change,
        `${why.message} It could not be undone: ${(error as Error).message}`,
      )
    }
    await store.abandon(workspaceId, change)
  }

  function logSkipped({ kind, conversationId }: WorkChange, answer: unknown): void {
    const { skipped = [] } = answer as { skipped?: { path: string; reason: string }[] }
    for (const { path, reason } of skipped)
      log.info({ kind, conversation: conversationId, path, reason }, 'skipped a file')
  }

  /** The change is stored, so a failed write to the repository is only logged; the next checkpoint updates it. */
  async function writeRepositoryOrLog({ tenant, conversationId }: WorkChange): Promise<void> {
    await deps.writeRepository(tenant, conversationId).catch((error: unknown) => {
      log.error({ err: error, conversation: conversationId }, 'a repository could not be written')
    })
  }

  /** Updates the index (W9); if that fails, it is updated before the next message is answered. */
  async function filesChanged(): Promise<void> {
    await deps.onFilesChanged?.(workspaceId).catch((error: unknown) => {
      log.error({ err: error }, 'the index could not be updated')
    })
  }

  async function finishPending(): Promise<void> {
    const pending = await store.pending(workspaceId)
    if (!pending) return
    if (!hasSafetyCheckpoint(pending)) return await store.abandon(workspaceId, pending)
    const wanted = [pending.target, pending.safety.checkpoint_id]
    if (!(await translated(workspace.has(wanted)))) {
      // The store was lost: the change can be neither finished nor rolled back.
      log.error(
        { change: pending.id, kind: pending.kind },
        "a file change can't be finished: its checkpoints are missing",
      )
      return await store.abandon(workspaceId, pending)
    }
    // The change was refused, but the database could not be updated.
    if (pending.isSafetyListed && !existsSync(markOf(pending))) {
      return await undoChange(pending, new Error('The change was refused.'))
    }
    const done = await restoreFiles(pending)
    try {
      await store.finish(workspaceId, { ...pending, isResumed: true }, done)
      rmSync(markOf(pending), { force: true })
      await writeRepositoryOrLog(pending)
    } catch (error) {
      if (!(error instanceof WaymarkError) || error.code !== 'conversation_not_found') throw error
      // The conversation was deleted in the meantime: the files are as requested, and there is no ledger to append to.
      await store.abandon(workspaceId, pending)
    }
  }

  /** Uses only the change's own data, so that it can be repeated even after its conversation was deleted. */
  async function restoreFiles(change: Safe): Promise<Done<unknown>> {
    const { target, safety, paths, kind } = change
    const { adopted } = change
    const label = adopted ? labels.adopted(adopted.title) : labels.restoredTo(target)
    const checkpointAfter = { label, time: deps.clock.now(), merged: adopted?.checkpointId }
    const after = kind === 'reset' ? {} : { checkpointAfter }
    const restored = await translated(
      workspace.restore({ target, safety: safety.checkpoint_id, paths, ...after }),
    )
    const { made, ...done } = restored
    const report = { ...done, skipped: [...done.skipped, ...(change.spared ?? [])] }
    return made
      ? restoreDone(change, report, frameOf(made, safety.work_session, label, (safety.number ?? 0) + 1))
      : resetDone(change, report)
  }

  /** The frame of the safety checkpoint, unless the ledger has it: changes of an earlier version stored it at the end. */
  const unlisted = ({ safety, isSafetyListed }: Safe) => (isSafetyListed ? [] : [safety])

  function resetDone(change: Safe, report: RestoreReport): Done<ResetDone> {
    const { target, safety } = change
    const { work_session: closed_session, checkpoint_id: pre_reset_checkpoint } = safety
    const done = { reset_to: target, new_session: nextSession(closed_session), pre_reset_checkpoint }
    const listed = { skipped: report.skipped, ...rescuedFields(report) }
    return {
      frames: [...unlisted(change), { kind: 'session.reset', ...done, closed_session, ...listed }],
      answer: { ...done, ...report },
    }
  }

  function restoreDone(
    change: Safe,
    report: RestoreReport,
    frame: CheckpointFrame,
  ): Done<Restored | Adopted> {
    const { target, safety } = change
    const ids = {
      restored_to: target,
      new_checkpoint: frame.checkpoint_id,
      safety_checkpoint: safety.checkpoint_id,
    }
    const { restored, deleted, skipped } = report
    const counts = { restored: restored.length, deleted: deleted.length }
    const from = change.adopted ? { adopted_from: change.adopted.conversationId } : {}
    return {
      frames: [
        ...unlisted(change),
        frame,
        { kind: 'workspace.restored', ...ids, ...counts, ...from, skipped, ...rescuedFields(report) },
      ],
      answer: { ...ids, ...report, ...(change.adopted ? { conflicts: change.adopted.conflicts } : {}) },
    }
  }

  return {
    runChange,
    restore: (kind, command, wanted) =>
      runChange(kind, command, async (change) => {
        const planning = await wanted()
        const { safety } = planning
        const { frame } = await take(safety.state, safety)
        const plan = planning.after ? await planning.after(frame.checkpoint_id) : planning
        const { target, paths, spared = [] } = plan
        const adopted = 'adopted' in plan ? plan.adopted : undefined
        const from = adopted ? { adopted } : {}
        const planned = { ...change, target, paths, spared, ...from, safety: frame, isSafetyListed: true }
        await store.note(workspaceId, planned)
        // Until here no file was touched, so a failure has nothing to undo.
        return (await restoreFiles(Object.assign(change, planned))) as Done<never>
      }),
    hold,
    async recover() {
      // Don't lock the workspace when there is nothing to do.
      if (!(await store.pending(workspaceId))) return
      const release = deps.hold()
      // The process that holds the lock finishes the change.
      if (!release) return
      try {
        await finishPending()
      } finally {
        release()
      }
    },
  }
}

function rescuedFields({ rescued }: RestoreReport): Pick<RestoreReport, 'rescued'> | object {
  return rescued.length > 0 ? { rescued } : {}
}

function hasSafetyCheckpoint(change: WorkChange): change is Safe {
  return change.target !== null && change.safety !== null
}

function emptyChange(
  kind: WorkChange['kind'],
  who: Pick<WorkChange, 'tenant' | 'conversationId' | 'by' | 'idempotency' | 'undoing'>,
): WorkChange {
  const id = randomBytes(8).toString('hex')
  return { id, kind, ...who, target: null, paths: null, safety: null }
}
