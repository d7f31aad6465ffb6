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
import type { ResetDone, Restored } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { asked } from './asked.ts'
import type { MadeCheckpoint, RestoreReport } from './file-operations.ts'
import { type CheckpointFrame, frameOf, type WorkSessionsDependencies } from './work-sessions.ts'

/**
 * Restore, reset and approve: each holds its workspace in the database from its beginning to its last frame, so that no run
 * begins meanwhile (W8), and that the next process knows after a crash what to finish (W5).
 *
 *   begun ──► safety checkpoint stored ──► files restored ──► frames stored, workspace released
 *     │                 │                        │
 *     │                 │                        ├─ refused: taken back, or failed when that is not possible
 *     └─ killed: released                        └─ killed: restored again, the same way
 *
 * A file in the data folder marks a change that may be finished later. It is removed before anything else when a change is
 * refused: removing works on a full disk, where the database may not be able to take a write.
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
  spared?: { path: string; reason: string }[]
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
  const { store, workspace, workspaceId, dataDir, take, log } = deps

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
      mark(change)
      const { answer } = await doAndStore(change, work)
      logSkipped(change, answer)
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
      rmSync(markOf(change), { force: true })
      return done
    } catch (error) {
      rmSync(markOf(change), { force: true })
      await takeBack(change, error as Error)
      throw error
    }
  }

  const markOf = ({ id }: WorkChange) => join(dataDir, 'tmp', `change-${id}`)

  function mark(change: WorkChange): void {
    mkdirSync(join(dataDir, 'tmp'), { recursive: true })
    writeFileSync(markOf(change), '')
  }

  /** Takes back what was done to files, and nothing that others have done since; then releases the workspace. */
  async function takeBack(change: WorkChange, why: Error): Promise<void> {
    const isDiskFull = why instanceof WaymarkError && why.code === 'disk_full'
    if (!isSafe(change) || isDiskFull) return await store.abandon(workspaceId, change)
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
      log.error(
        details,
        'a change of files could be neither finished nor taken back; restore its safety checkpoint',
      )
      return await store.fail(
        workspaceId,
        change,
        `${why.message} It could not be taken back: ${(error as Error).message}`,
      )
    }
    await store.abandon(workspaceId, change)
  }

  function logSkipped({ kind, conversationId }: WorkChange, answer: unknown): void {
    const { skipped = [] } = answer as { skipped?: { path: string; reason: string }[] }
    for (const { path, reason } of skipped)
      log.info({ kind, conversation: conversationId, path, reason }, 'left a file as it is')
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
      // The store was lost: the change can be neither finished nor rolled back.
      log.error(
        { change: pending.id, kind: pending.kind },
        'a change of files can not be finished: its checkpoints are gone',
      )
      return await store.abandon(workspaceId, pending)
    }
    // It was refused, and only the database could not be told.
    if (pending.isSafetyListed && !existsSync(markOf(pending))) {
      return await takeBack(pending, new Error('It was refused.'))
    }
    const done = await putFilesBack(pending)
    try {
      await store.finish(workspaceId, pending, done)
      rmSync(markOf(pending), { force: true })
      await followOrSay(pending)
    } catch (error) {
      if (!(error instanceof WaymarkError) || error.code !== 'conversation_not_found') throw error
      // The conversation was deleted in the meantime: the files are as requested, and there is no ledger to tell.
      await store.abandon(workspaceId, pending)
    }
  }

  /** From what the change itself says, so that it can be done again, also when its conversation has gone. */
  async function putFilesBack(change: Safe): Promise<Done<unknown>> {
    const { target, safety, paths, kind } = change
    const label = labels.restoredTo(target)
    const after = kind === 'reset' ? {} : { checkpointAfter: { label, time: deps.clock.now() } }
    const restored = await asked(workspace.restore({ target, safety: safety.checkpoint_id, paths, ...after }))
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

  function restoreDone(change: Safe, report: RestoreReport, frame: CheckpointFrame): Done<Restored> {
    const { target, safety } = change
    const ids = {
      restored_to: target,
      new_checkpoint: frame.checkpoint_id,
      safety_checkpoint: safety.checkpoint_id,
    }
    const { restored, deleted, skipped } = report
    const counts = { restored: restored.length, deleted: deleted.length }
    return {
      frames: [
        ...unlisted(change),
        frame,
        { kind: 'workspace.restored', ...ids, ...counts, skipped, ...rescuedFields(report) },
      ],
      answer: { ...ids, ...report },
    }
  }

  return {
    carryOut,
    putBack: (kind, command, wanted) =>
      carryOut(kind, command, async (change) => {
        const { target, paths, safety, spared = [] } = await wanted()
        const { frame } = await take(safety.state, safety)
        const safe: Safe = Object.assign(change, {
          target,
          paths,
          spared,
          safety: frame,
          isSafetyListed: true,
        })
        await store.note(workspaceId, safe)
        return (await putFilesBack(safe)) as Done<never>
      }),
    async recover() {
      // Don't lock the workspace when there is nothing to do.
      if (!(await store.pending(workspaceId))) return
      const release = deps.hold()
      // The process that holds it finishes it.
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

function isSafe(change: WorkChange): change is Safe {
  return change.target !== null && change.safety !== null
}
