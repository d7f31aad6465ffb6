import { createTurns } from '../core/turns.ts'
import {
  type AdoptCommand,
  type FailedChange,
  type FilesThen,
  labels,
  MAIN,
  nextSession,
  type ResetCommand,
  type RestoreCommand,
  type WorkCommand,
  type WorkSessions,
  type WorkState,
  workStateOf,
  workspaceNotHere,
} from '../core/work-sessions.ts'
import type { Adopted, SessionView } from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { type Authors, createDifferences, findAuthors, nameOf } from './authors.ts'
import { type CheckpointFrame, frameOf } from './checkpoint-frame.ts'
import { cleanPath } from './clean-path.ts'
import { createFileChanges } from './file-changes.ts'
import type { MadeCheckpoint } from './file-operations.ts'
import type { MergeBases } from './merge-trees.ts'
import { writeBranches } from './repository.ts'
import type { WorkSessionsDependencies } from './session-dependencies.ts'
import { translated } from './workspace-failure.ts'

/** The work sessions of one workspace. */
export interface WorkspaceSessions
  extends Omit<
    WorkSessions,
    | 'adopt'
    | 'blame'
    | 'commit'
    | 'compare'
    | 'isHere'
    | 'workspaceIds'
    | 'makeCopy'
    | 'checkpoints'
    | 'edits'
  > {
  /** Takes a checkpoint, then runs hooks of a commit while no run starts and no other change of files is made. */
  aroundHooks<T>(command: WorkCommand, work: () => Promise<T>): Promise<T>
  /** The conversation's last checkpoint, or null. */
  tip(tenant: string, id: ConversationId): Promise<string | null>
  /** Merges this checkpoint of another working copy into the files. */
  adopt(command: AdoptFiles): Promise<Adopted>
  /** Finishes or undoes the change that a killed process had begun (W5). */
  recover(): Promise<void>
  /** Cancels scheduled upkeep. */
  stop(): void
}

const LOOK_AFTER_MS = 1000
const CONFLICT = 'changed on both sides; kept as it is here'

interface AdoptFiles extends AdoptCommand {
  /** The checkpoint to merge, and its folder. */
  theirs: string
  theirRoot: string
  bases: MergeBases
}

/** A conversation that has its first checkpoint. */
type Begun = WorkState & { main: string; tip: string }

export function createWorkSessions(deps: WorkSessionsDependencies): WorkspaceSessions {
  const { store, workspace, workspaceId, dataDir, clock, log } = deps
  const inOrder = createTurns()
  const between = createDifferences(workspace)
  const changes = createFileChanges({ ...deps, take, writeRepository })
  let later: NodeJS.Timeout | undefined

  async function stateOf(tenant: string, id: ConversationId): Promise<WorkState> {
    const state = workStateOf(await store.rows(tenant, id))
    if (state.workspaceId === workspaceId) return state
    throw workspaceNotHere(state.workspaceId, workspaceId)
  }

  /** Takes a checkpoint, the `nth` after the last one. */
  async function take(
    { lastNumber }: Pick<WorkState, 'lastNumber'>,
    { session, label, parents, nth = 1 }: { session: string; label: string; parents: string[]; nth?: number },
  ): Promise<{ made: MadeCheckpoint; frame: CheckpointFrame }> {
    const made = await translated(workspace.checkpoint({ label, parents, time: clock.now() }))
    const { id: checkpoint, files, changed, excluded } = made
    log.info({ checkpoint, session, label, files, changed, excluded }, 'made a checkpoint')
    return { made, frame: frameOf(made, session, label, lastNumber + nth) }
  }

  /** Goes to `main`; in a fork, to its first session after the inherited checkpoints, which stay unchanged. */
  function firstCheckpoint(state: WorkState) {
    const { session, tip } = state
    return tip === null
      ? take(state, { session: MAIN, label: labels.initial, parents: [] })
      : take(state, { session, label: labels.initial, parents: [tip] })
  }

  async function appendOutside(tenant: string, id: ConversationId, frame: CheckpointFrame): Promise<void> {
    const appended = await deps.ledger.append({ tenant, conversationId: id, run: null, frames: [frame] })
    if (!appended.ok) throw new WaymarkError(appended.refusal, 'The conversation no longer exists.')
    await writeRepository(tenant, id)
  }

  async function start(tenant: string, id: ConversationId): Promise<void> {
    await begun(tenant, id)
  }

  /** The conversation's state, read once. Takes its first checkpoint if it has none, or if the files of its base are lost. */
  function begun(tenant: string, id: ConversationId): Promise<Begun> {
    return inOrder(id, async () => {
      let state = await stateOf(tenant, id)
      const frame = await missingCheckpoint(state)
      if (frame) {
        await appendOutside(tenant, id, frame)
        state = await stateOf(tenant, id)
      }
      const { main, tip } = state
      if (main === null || tip === null) throw new Error(`${id} has no first checkpoint`)
      return { ...state, main, tip }
    })
  }

  async function missingCheckpoint(state: WorkState): Promise<CheckpointFrame | null> {
    if (!state.hasBegun) return (await firstCheckpoint(state)).frame
    if (state.main === null || (await translated(workspace.has([state.main])))) return null
    // The store was lost or is on another machine: compare with the current files from now on.
    return (await take(state, { session: MAIN, label: labels.initial, parents: [] })).frame
  }

  async function writeRepository(tenant: string, id: ConversationId): Promise<void> {
    const { heads, session } = await stateOf(tenant, id)
    writeBranches(dataDir, id, { heads, current: session })
  }

  /** The ledger has the checkpoint, so a failed write to the repository is only logged; the next checkpoint updates it. */
  async function writeRepositoryOrLog(tenant: string, id: ConversationId): Promise<void> {
    await writeRepository(tenant, id).catch((error: unknown) => {
      log.error({ err: error, conversation: id }, 'a repository could not be written')
    })
  }

  /** Returns the checkpoint's full id; throws checkpoint_not_found unless its files are stored here. */
  async function found(tenant: string, id: ConversationId, checkpointId: string): Promise<string> {
    const full = await store.findCheckpoint(tenant, id, checkpointId)
    if (await translated(workspace.has([full]))) return full
    throw new WaymarkError('checkpoint_not_found', `The files of checkpoint ${full} are no longer stored.`)
  }

  /** Throws checkpoint_not_found when the checkpoint's files are no longer stored. */
  async function filesThen(tenant: string, id: ConversationId, at: number | null): Promise<FilesThen> {
    await begun(tenant, id)
    if (at === null) return { checkpointId: null, edits: [] }
    const then = await store.filesAt(tenant, id, at)
    return then.checkpointId === null
      ? then
      : { ...then, checkpointId: await found(tenant, id, then.checkpointId) }
  }

  /** The last approval in the workspace by any conversation: an approval counts for all of them. */
  async function approvedFor({ main, mainAt }: Pick<Begun, 'main' | 'mainAt'>) {
    const last = await store.approvedIn(workspaceId)
    const own = { checkpointId: main, at: mainAt }
    if (!last || last.at <= own.at || !(await translated(workspace.has([last.checkpointId])))) return own
    return last
  }

  function authorsSince(tenant: string, conversationId: ConversationId, since: string): Promise<Authors> {
    return translated(findAuthors({ store, between }, { tenant, conversationId, workspaceId, since }))
  }

  /** Resets this conversation's changes and those without an author; spares and lists what other conversations changed. */
  async function resetOf({ tenant, conversationId, includeOthers }: ResetCommand, state: Begun) {
    const { checkpointId: target, at } = await approvedFor(state)
    if (includeOthers) return { target, paths: null, spared: [] }
    const authors = await authorsSince(tenant, conversationId, at)
    const spared: { path: string; reason: string }[] = []
    const paths: string[] = []
    for (const { path } of await translated(workspace.differences(target, null))) {
      const others = authors.of(path).filter((author) => author.isOther)
      if (others.length === 0) paths.push(path)
      else
        spared.push({ path, reason: `${others.map(nameOf).join(', ')} changed it since the last approval` })
    }
    return { target, paths: spared.length === 0 ? null : paths, spared }
  }

  async function wanted(command: RestoreCommand): Promise<{ target: string; paths: string[] | null }> {
    const { tenant, conversationId, checkpointId } = command
    const target = await found(tenant, conversationId, checkpointId)
    const paths = command.paths?.map(cleanPath) ?? null
    const unknown = paths === null ? [] : await translated(workspace.unknownPaths(target, paths))
    if (unknown.length === 0) return { target, paths }
    throw new WaymarkError('invalid_request', 'Neither the checkpoint nor the project has these paths.', {
      details: unknown.map((path) => ({ path: 'body.paths', message: path })),
    })
  }

  /** Merges the other working copy's checkpoint with ours, or with the current files; no file changes yet. */
  async function merged(command: AdoptFiles, ours: string | null) {
    const { theirs, theirRoot, bases, isOtherPreferred, title, from } = command
    const how = { label: labels.adopted(title), time: clock.now(), isTheirsPreferred: isOtherPreferred }
    const made = await translated(workspace.mergeFrom({ ours, theirs, theirRoot, ...bases, ...how }))
    const { id: target, changed: paths, conflicts } = made
    const taken = new Set(paths)
    const spared = conflicts.flatMap((path) => (taken.has(path) ? [] : { path, reason: CONFLICT }))
    const adopted = { conversationId: from, checkpointId: theirs, title, conflicts }
    return { target, paths, spared, adopted }
  }

  async function lookAfter(): Promise<void> {
    try {
      const missed = await workspace.verifyWatching()
      if (missed.length > 0) {
        log.error({ files: missed.slice(0, 10), count: missed.length }, 'the watcher missed file changes')
      }
      await workspace.tidy()
    } catch (error) {
      log.error({ err: error }, 'the upkeep of checkpoints failed')
    }
  }

  return {
    start,
    writeRepository,
    tip: async (tenant, id) => (await stateOf(tenant, id)).tip,
    recover: changes.recover,
    aroundHooks: (command, work) =>
      changes.hold(command, async () => {
        const { tenant, conversationId } = command
        const state = await begun(tenant, conversationId)
        const { session, tip } = state
        const { made, frame } = await take(state, { session, label: labels.beforeHooks, parents: [tip] })
        if (!made.isSame) await appendOutside(tenant, conversationId, frame)
        return await work()
      }),
    stop: () => clearTimeout(later),
    beforeMessage: ({ tenant, conversationId, content }) =>
      inOrder(conversationId, async () => {
        const state = await stateOf(tenant, conversationId)
        const { session } = state
        const first = state.hasBegun ? null : await firstCheckpoint(state)
        const tip = first?.made.id ?? state.tip
        const label = labels.beforeMessage(content)
        const parents = tip === null ? [] : [tip]
        const { made, frame } = await take(state, { session, label, parents, nth: first ? 2 : 1 })
        return { checkpointId: made.id, workSession: session, frames: first ? [first.frame, frame] : [frame] }
      }),
    editFile: ({ tenant, conversationId, path, bytes, expected, confirm }) =>
      inOrder(conversationId, async () => {
        const state = await stateOf(tenant, conversationId)
        const { session, tip, lastNumber } = state
        const label = labels.beforeEdit(path)
        let number = lastNumber
        const checkpoint = { label, parents: tip === null ? [] : [tip], time: clock.now() }
        const outcome = await workspace.edit({ path, bytes, expected, checkpoint }, (kept) =>
          confirm(kept ? [frameOf(kept, session, label, ++number)] : []),
        )
        if (!outcome.isDone) return outcome
        const { before, wasThere, kept, rescued } = outcome
        if (rescued.length > 0)
          log.error({ files: rescued }, 'files were modified while a tool replaced them')
        if (kept) await writeRepositoryOrLog(tenant, conversationId)
        return { isDone: true, before, wasThere, previousCheckpoint: kept?.id ?? null, rescued }
      }),
    capture: ({ tenant, conversationId, label }) =>
      inOrder(conversationId, async () => {
        const state = await stateOf(tenant, conversationId)
        const { session, tip } = state
        if (tip === null) return null
        const { made, frame } = await take(state, { session, label, parents: [tip] })
        if (made.isSame) return null
        const files = await translated(workspace.diff(tip, made.id, null))
        const times = await translated(workspace.changeTimes(files.map(({ path }) => path)))
        const changes = files.map(({ path, status, additions, deletions, diff }, index) => ({
          path,
          change: status,
          additions,
          deletions,
          diff,
          changedAt: times[index] ?? null,
        }))
        return { frame, changes }
      }),
    afterRun() {
      // Delayed, so that it doesn't hold up a waiting message.
      clearTimeout(later)
      later = setTimeout(() => void lookAfter(), LOOK_AFTER_MS)
      later.unref()
    },
    async session(tenant, id) {
      await begun(tenant, id)
      const state = workStateOf(await store.rows(tenant, id, { isCounted: true }))
      if (state.main === null) throw new Error(`${id} has no first checkpoint`)
      const { rescued } = await translated(workspace.condition())
      const approved = await approvedFor({ ...state, main: state.main })
      const authors = await authorsSince(tenant, id, approved.at)
      const changed = (await translated(workspace.differences(approved.checkpointId, null))).map((file) => ({
        ...file,
        by: authors.of(file.path).map(({ conversation_id, title, how }) => ({ conversation_id, title, how })),
      }))
      const failed = await store.failed(workspaceId)
      return sessionView(state, { approved: approved.checkpointId, changed, failed, rescued })
    },
    async approve(command) {
      const { tenant, conversationId, message } = command
      return await changes.runChange('approve', command, async (change) => {
        const state = await begun(tenant, conversationId)
        const { session, main, tip } = state
        const now = await take(state, { session, label: labels.beforeApproval, parents: [tip] })
        // When the files have not changed, the last checkpoint is the approved one.
        const approved = now.made.isSame ? tip : now.made.id
        const label = labels.approved(message ?? session)
        const commits_approved = await translated(workspace.countSince(main, approved))
        // With nothing to merge, the approval follows the last one and has no second parent.
        const parents = approved === main ? [main] : [main, approved]
        const merge = { of: approved, parents, label, time: clock.now() }
        const approved_commit = await translated(workspace.merge(merge))
        const answer = { approved_commit, new_session: nextSession(session), commits_approved }
        // For the undo of the first approval in the workspace.
        change.approvedBefore = main
        const merged = frameOf({ ...now.made, id: approved_commit }, MAIN, label, state.lastNumber + 2)
        const frames: FrameDraft[] = [
          ...(now.made.isSame ? [] : [now.frame]),
          merged,
          {
            kind: 'session.approved',
            ...answer,
            closed_session: session,
            ...(message === null ? {} : { message }),
          },
        ]
        return { frames, answer }
      })
    },
    approvedState: async (tenant, id) => (await approvedFor(await begun(tenant, id))).checkpointId,
    occupied: async (_tenant, _id, paths) => await translated(workspace.occupied([...paths])),
    async approveAgain(command) {
      const { tenant, conversationId, approved } = command
      return await changes.runChange('approve', command, async () => {
        const state = await begun(tenant, conversationId)
        const { session } = state
        if (!(await translated(workspace.has([approved])))) {
          throw new WaymarkError(
            'checkpoint_not_found',
            'The files that were approved then are no longer stored.',
          )
        }
        const label = labels.approvedAgain
        const made = { id: approved, files: 0, changed: 0, excluded: 0, isSame: true }
        const answer = { approved_commit: approved, new_session: nextSession(session), commits_approved: 0 }
        const frames: FrameDraft[] = [
          frameOf(made, MAIN, label, state.lastNumber + 1),
          { kind: 'session.approved', ...answer, closed_session: session, message: label },
        ]
        return { frames, answer }
      })
    },
    async changedBetween(tenant, id, from, to) {
      const [one, other] = [await found(tenant, id, from), await found(tenant, id, to)]
      return (await translated(workspace.differences(one, other))).map(({ path }) => path)
    },
    async reset(command) {
      const { tenant, conversationId } = command
      if (command.dryRun) {
        const { target, paths, spared } = await resetOf(command, await begun(tenant, conversationId))
        const report = await translated(workspace.preview({ target, paths }))
        const skipped = [...report.skipped, ...spared]
        return { reset_to: target, new_session: null, pre_reset_checkpoint: null, ...report, skipped }
      }
      return await changes.restore('reset', command, async () => {
        const state = await begun(tenant, conversationId)
        const { session, tip } = state
        const safety = { state, session, label: labels.beforeReset, parents: [tip] }
        return { ...(await resetOf(command, state)), safety }
      })
    },
    async restore(command) {
      const { tenant, conversationId } = command
      if (command.dryRun) {
        await begun(tenant, conversationId)
        const { target, paths } = await wanted(command)
        const report = await translated(workspace.preview({ target, paths }))
        return { restored_to: target, new_checkpoint: null, safety_checkpoint: null, ...report }
      }
      return await changes.restore('restore', command, async () => {
        const state = await begun(tenant, conversationId)
        const { session, tip } = state
        const safety = { state, session, label: labels.beforeRestore, parents: [tip] }
        return { ...(await wanted(command)), safety }
      })
    },
    async adopt(command) {
      const { tenant, conversationId } = command
      await begun(tenant, conversationId)
      if (command.dryRun) {
        const { target, paths, spared, adopted } = await merged(command, null)
        const report = await translated(workspace.preview({ target, paths }))
        const skipped = [...report.skipped, ...spared]
        const none = { new_checkpoint: null, safety_checkpoint: null }
        return { restored_to: target, ...none, ...report, skipped, conflicts: adopted.conflicts }
      }
      return await changes.restore('adopt', command, async () => {
        // Files that only tools write there are captured here too, so that the adoption can be undone (W3).
        await translated(workspace.adopt(command.theirs))
        const state = await begun(tenant, conversationId)
        const { session, tip } = state
        const safety = { state, session, label: labels.beforeAdoption, parents: [tip] }
        return { target: '', paths: null, safety, after: (ours: string) => merged(command, ours) }
      })
    },
    async files({ tenant, conversationId, at, search, limit }) {
      const then = await filesThen(tenant, conversationId, at)
      const { total, paths, changed, unsure } = await translated(workspace.files(then, { search, limit }))
      return { checkpoint_id: then.checkpointId, total, items: paths, changed, unsure }
    },
    async file({ tenant, conversationId, at, path }) {
      const then = await filesThen(tenant, conversationId, at)
      const only = cleanPath(path)
      const { file, difference } = await translated(workspace.file(then, only))
      return {
        path: only,
        checkpoint_id: then.checkpointId,
        text: file?.text ?? null,
        bytes: file?.bytes ?? null,
        is_binary: file?.isBinary ?? false,
        change: difference,
      }
    },
    async checkpoint(tenant, id, checkpointId) {
      await stateOf(tenant, id)
      const full = await found(tenant, id, checkpointId)
      return { checkpoint_id: full, left_out: await translated(workspace.leftOut(full)) }
    },
    async diff({ tenant, conversationId, from, to, path }) {
      const state = await begun(tenant, conversationId)
      const base =
        from === null ? (await approvedFor(state)).checkpointId : await found(tenant, conversationId, from)
      const other = to === null ? null : await found(tenant, conversationId, to)
      const only = path === null ? null : cleanPath(path)
      return { from: base, to: other, files: await translated(workspace.diff(base, other, only)) }
    },
  }
}

interface Seen {
  approved: string
  changed: SessionView['changed_files']
  failed: FailedChange | null
  rescued: SessionView['rescued']
}

function sessionView(state: WorkState, { approved, changed, failed, rescued }: Seen): SessionView {
  return {
    approved_checkpoint: approved,
    failed_change: failed && {
      kind: failed.kind,
      conversation_id: failed.conversationId,
      safety_checkpoint: failed.safetyCheckpoint,
      reason: failed.reason,
      at: failed.at,
    },
    rescued,
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
