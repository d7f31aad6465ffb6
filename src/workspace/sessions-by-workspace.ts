import { mkdirSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ledger } from '../core/ledger.ts'
import { createTurns } from '../core/turns.ts'
import {
  type CheckpointEvent,
  type EditEvent,
  labels,
  type WorkEvent,
  type WorkSessions,
  workspaceNotHere,
} from '../core/work-sessions.ts'
import type { RunHook } from '../git/hooks.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, copyWorkspaceId } from '../protocol/ids.ts'
import { createdAs, type EarlierPaths, type FirstName } from './blame.ts'
import { blameView, distinctCheckpoints, historyOf } from './blame-history.ts'
import { cleanPath } from './clean-path.ts'
import { commitApproved } from './commit-approved.ts'
import { dropCopy } from './repositories.ts'
import {
  copiesInMaking,
  copiesOnDisk,
  copyFolder,
  copyIgnoreFiles,
  copyLock,
  makingMark,
  noteAdoption,
  readCopyBase,
  writeCopyBase,
} from './repository.ts'
import type { WorkSessionsDependencies } from './session-dependencies.ts'
import { createWorkSessions, type WorkspaceSessions } from './work-sessions.ts'
import type { Workspace } from './workspace.ts'
import { translated } from './workspace-failure.ts'
import type { WorkspaceThread } from './workspace-thread.ts'

export interface SessionsByWorkspaceDependencies
  extends Omit<WorkSessionsDependencies, 'workspace' | 'hold' | 'ledger'> {
  ledger: Pick<Ledger, 'append' | 'owns'>
  /** The project's folder. */
  root: string
  thread: WorkspaceThread
  /** The `PATH` used to find git. */
  programPath: string
  /** A runner for the hooks of one commit. */
  hookRunner(): RunHook
  /** Locks one working copy's files against other processes; null when one holds the lock. */
  hold(path: string): (() => void) | null
  /** True if no other process uses this data folder. */
  isAlone: boolean
}

export interface SessionsByWorkspace extends WorkSessions {
  /** Creates the working copy of a newly imported conversation, with the files of this checkpoint. */
  importCopy(conversationId: string, checkpoint: string): Promise<void>
  /** Takes a checkpoint of a conversation's own working copy; null when it has none here. */
  snapshotCopy(conversationId: string): Promise<string | null>
  recover(): Promise<void>
  stop(): void
}

/** How long another process may take to create a copy. */
const MAKING_MS = 60 * 60 * 1000
const REMEMBERED = 10_000

/** The work sessions of all working copies on this machine; passes each call to the conversation's workspace. */
export function createSessionsByWorkspace(deps: SessionsByWorkspaceDependencies): SessionsByWorkspace {
  const { store, thread, dataDir, workspaceId: project, clock } = deps
  const sessions = new Map<string, WorkspaceSessions>()
  /** Cached, because a conversation's workspace never changes. */
  const places = new Map<string, string | null>()
  const commitInTurn = createTurns()

  const idOf = (copy: string) => copyWorkspaceId(project, copy)
  const workspaceIds = () => [project, ...copiesOnDisk(dataDir).map(idOf)]

  /** The name of a file that an edit created and that was renamed before a checkpoint had it; null if there is none. */
  async function firstNameOf(
    workspace: Pick<Workspace, 'unknownPaths'>,
    place: string,
    checkpoints: readonly CheckpointEvent[],
    { paths, born }: EarlierPaths,
  ): Promise<FirstName | null> {
    if (!born) return null
    const timeOf = (id: string | null) => checkpoints.find((event) => event.checkpointId === id)?.at ?? null
    const created = await store.creations(place, timeOf(born.after) ?? '', timeOf(born.in))
    // A file that was created under its own name was not renamed.
    if (created.length === 0 || created.some(({ path }) => paths.includes(path))) return null
    const candidates = created.map(({ path }) => path)
    const gone = new Set(await translated(workspace.unknownPaths(born.in ?? born.after, candidates)))
    const path = await createdAs(
      born.text,
      created.filter((edit) => gone.has(edit.path)),
    )
    return path === null ? null : { path, in: born.in }
  }

  /** Finds the workspace's copy; null for the project itself, undefined when it is not on this machine. */
  function conversationOfCopy(workspaceId: string): string | null | undefined {
    if (workspaceId === project) return null
    return copiesOnDisk(dataDir).find((copy) => idOf(copy) === workspaceId)
  }

  function workspaceOf(copy: string | null): Workspace {
    return copy === null ? thread : thread.copy(copy)
  }

  function sessionsOf(workspaceId: string): WorkspaceSessions {
    const copy = conversationOfCopy(workspaceId)
    if (copy === undefined) throw workspaceNotHere(workspaceId, project)
    let found = sessions.get(workspaceId)
    if (!found) {
      const lock = copy === null ? join(dataDir, 'workspace.lock') : copyLock(dataDir, copy)
      const workspace = workspaceOf(copy)
      found = createWorkSessions({ ...deps, workspace, workspaceId, hold: () => deps.hold(lock) })
      sessions.set(workspaceId, found)
    }
    return found
  }

  async function workspaceIdOf(tenant: string, id: ConversationId): Promise<string | null> {
    const key = `${tenant} ${id}`
    const known = places.get(key)
    if (known !== undefined) return known
    const place = await store.workspaceOf(tenant, id)
    const copy = place === null ? undefined : conversationOfCopy(place)
    if (copy && !(await deps.ledger.owns(tenant, copy as ConversationId)))
      throw workspaceNotHere(place, project)
    if (places.size >= REMEMBERED) places.clear()
    places.set(key, place)
    return place
  }

  async function of(tenant: string, id: ConversationId): Promise<WorkspaceSessions> {
    const place = await workspaceIdOf(tenant, id)
    if (place === null) throw workspaceNotHere(place, project)
    return sessionsOf(place)
  }

  /** A conversation's last checkpoint; null when its files are not on this machine. */
  async function tipOf(tenant: string, id: ConversationId): Promise<string | null> {
    const place = await workspaceIdOf(tenant, id)
    if (place === null || conversationOfCopy(place) === undefined) return null
    return await sessionsOf(place).tip(tenant, id)
  }

  /** Drops the copies that a killed process left incomplete. */
  async function dropHalfMade(): Promise<void> {
    const making = copiesInMaking(dataDir).filter((copy) => {
      const mark = statSync(makingMark(dataDir, copy), { throwIfNoEntry: false })
      return mark && (deps.isAlone || mark.mtimeMs < Date.now() - MAKING_MS)
    })
    const known = new Set(making.length === 0 ? [] : await store.knownAmong(making))
    for (const copy of making) {
      if (known.has(copy)) rmSync(makingMark(dataDir, copy), { force: true })
      else await dropCopy(thread, dataDir, copy)
    }
  }

  let lookedAt = 0
  return {
    workspaceIds,
    isHere: (workspaceId) => conversationOfCopy(workspaceId) !== undefined,
    async start(tenant, id) {
      try {
        await (await of(tenant, id)).start(tenant, id)
      } catch (error) {
        const isDeleted = error instanceof WaymarkError && error.code === 'conversation_not_found'
        if (!isDeleted) deps.log.error({ err: error, conversation: id }, 'the first checkpoint failed')
      }
    },
    // Refused for a conversation without a workspace, because nothing that it changes could be restored.
    beforeMessage: async (command) =>
      (await of(command.tenant, command.conversationId)).beforeMessage(command),
    capture: async (command) => (await of(command.tenant, command.conversationId)).capture(command),
    editFile: async (command) => (await of(command.tenant, command.conversationId)).editFile(command),
    writeRepository: async (tenant, id) => (await of(tenant, id)).writeRepository(tenant, id),
    afterRun: (workspaceId) => {
      if (workspaceId !== null) sessions.get(workspaceId)?.afterRun(workspaceId)
    },
    session: async (tenant, id) => (await of(tenant, id)).session(tenant, id),
    approve: async (command) => (await of(command.tenant, command.conversationId)).approve(command),
    approvedState: async (tenant, id) => (await of(tenant, id)).approvedState(tenant, id),
    occupied: async (tenant, id, paths) => (await of(tenant, id)).occupied(tenant, id, paths),
    approveAgain: async (command) => (await of(command.tenant, command.conversationId)).approveAgain(command),
    changedBetween: async (tenant, id, from, to) =>
      (await of(tenant, id)).changedBetween(tenant, id, from, to),
    reset: async (command) => (await of(command.tenant, command.conversationId)).reset(command),
    restore: async (command) => (await of(command.tenant, command.conversationId)).restore(command),
    async adopt(command) {
      const { tenant, conversationId, from } = command
      const place = await workspaceIdOf(tenant, from)
      const copy = place === null ? undefined : conversationOfCopy(place)
      if (copy === undefined) throw workspaceNotHere(place, project)
      const target = await workspaceIdOf(tenant, conversationId)
      if (copy === null || place === target || target === null) {
        const why =
          'Only the files of a fork with its own working copy can be adopted, by another conversation.'
        throw new WaymarkError('invalid_request', why)
      }
      const origin = originFor(copy, target)
      if (origin === null)
        throw new WaymarkError('invalid_request', 'It is not known which files this fork began with.')
      const tip = await tipOf(tenant, from)
      const theirs = await snapshot(workspaceOf(copy), tip === null ? [] : [tip])
      const adoptions = readCopyBase(dataDir, copy)?.adoptions.filter((one) => one.target === target) ?? []
      const bases = { origin, adoptions }
      const files = { theirs, theirRoot: realpathSync(copyFolder(dataDir, copy)), bases }
      const done = await (await of(tenant, conversationId)).adopt({ ...command, ...files })
      const { safety_checkpoint: before, new_checkpoint: after } = done
      // A repeated request returns the first answer, which is noted already.
      const isNoted = adoptions.some((one) => one.after === after)
      if (before !== null && after !== null && !isNoted)
        noteAdoption(dataDir, copy, { target, theirs, before, after })
      return done
    },
    checkpoints: (query) => store.checkpoints(query),
    edits: (query) => store.edits(query),
    checkpoint: async (tenant, id, checkpointId) =>
      (await of(tenant, id)).checkpoint(tenant, id, checkpointId),
    diff: async (query) => (await of(query.tenant, query.conversationId)).diff(query),
    files: async (query) => (await of(query.tenant, query.conversationId)).files(query),
    file: async (query) => (await of(query.tenant, query.conversationId)).file(query),
    async commit(command) {
      const place = await workspaceIdOf(command.tenant, command.conversationId)
      const copy = place === null ? undefined : conversationOfCopy(place)
      if (copy === undefined) throw workspaceNotHere(place, project)
      if (copy !== null) {
        const why = "A fork's working copy is in no repository. Adopt its files first, and approve them."
        throw new WaymarkError('commit_refused', why)
      }
      const { root, programPath: path, hookRunner } = deps
      const { tenant, conversationId } = command
      const from = { store, workspace: thread, workspaceId: project, hookRunner }
      const approvedState = async () =>
        (await sessionsOf(project).session(tenant, conversationId)).approved_checkpoint
      const where = { ...from, approvedState, root, dataDir, path, now: clock.now() }
      // In turn, so that two commits don't take the same approvals, and hooks don't run at the same time.
      const commit = () => commitApproved(where, command)
      return await commitInTurn(project, () =>
        command.runHooks && !command.dryRun ? sessionsOf(project).aroundHooks(command, commit) : commit(),
      )
    },
    async blame({ tenant, conversationId, path }) {
      const place = await workspaceIdOf(tenant, conversationId)
      const copy = place === null ? undefined : conversationOfCopy(place)
      if (place === null || copy === undefined) throw workspaceNotHere(place, project)
      await (await of(tenant, conversationId)).start(tenant, conversationId)
      const workspace = workspaceOf(copy)
      const only = cleanPath(path)
      const checkpoints = await checkpointsOf(place, copy)
      const ids = checkpoints.map((event) => event.checkpointId)
      const { paths, born } = await translated(workspace.earlierPaths(ids, only))
      const firstName = await firstNameOf(workspace, place, checkpoints, { paths, born })
      const names = firstName === null ? paths : [...paths, firstName.path]
      const { steps, sources } = historyOf(checkpoints, await editsOf(place, copy, names))
      const { text, authors } = await translated(workspace.blame(steps, only, firstName))
      if (text !== null) return await blameView(store, tenant, only, { text, authors }, sources)
      throw new WaymarkError('invalid_request', `${only} is missing, is not text, or is larger than 1 MiB.`)
    },
    async compare({ tenant, from, to, isDetailed }) {
      const [one, other] = await filesToCompare(tenant, from, to)
      if (one === null || other === null || !(await translated(thread.has([one, other])))) return null
      if (isDetailed) return { from: one, to: other, files: await translated(thread.diff(one, other, null)) }
      const files = await translated(thread.differences(one, other))
      return { from: one, to: other, files: files.map((file) => ({ ...file, diff: null })) }
    },
    async makeCopy({ tenant, from, checkpointId, conversationId }) {
      const place = (await workspaceIdOf(tenant, from)) ?? project
      const source = conversationOfCopy(place)
      if (source === undefined) throw workspaceNotHere(place, project)
      const target = checkpointId ?? (await snapshot(workspaceOf(source)))
      if (!(await translated(thread.has([target])))) {
        throw new WaymarkError(
          'checkpoint_not_found',
          `The files of checkpoint ${target} are not stored here.`,
        )
      }
      const drop = () => dropCopy(thread, dataDir, conversationId)
      try {
        const root = source === null ? deps.root : copyFolder(dataDir, source)
        await fill(conversationId, target, root, place)
      } catch (error) {
        await drop()
        throw error
      }
      return {
        workspaceId: idOf(conversationId),
        drop,
        keep: async () => rmSync(makingMark(dataDir, conversationId), { force: true }),
      }
    },
    snapshotCopy: async (conversationId) =>
      copiesOnDisk(dataDir).includes(conversationId) ? await snapshot(thread.copy(conversationId)) : null,
    async importCopy(conversationId, checkpoint) {
      try {
        await fill(conversationId, checkpoint, deps.root, project)
      } catch (error) {
        await dropCopy(thread, dataDir, conversationId)
        throw error
      }
      rmSync(makingMark(dataDir, conversationId), { force: true })
    },
    async recover() {
      if (lookedAt + MAKING_MS < Date.now()) await dropHalfMade()
      lookedAt = Date.now()
      for (const workspaceId of workspaceIds()) {
        if (await store.pending(workspaceId)) await sessionsOf(workspaceId).recover()
      }
    },
    stop() {
      for (const one of sessions.values()) one.stop()
    },
  }

  /** The checkpoints of a workspace, after those that a working copy was made from. */
  async function checkpointsOf(place: string, copy: string | null): Promise<CheckpointEvent[]> {
    const own = await store.checkpointEvents(place)
    const earlier = await beforeCopy(copy, own[0]?.at, checkpointsOf)
    return distinctCheckpoints([...earlier, ...own])
  }

  async function editsOf(place: string, copy: string | null, paths: readonly string[]): Promise<EditEvent[]> {
    // Only a copy has a history before its own.
    const [first] = copy === null ? [] : await store.checkpointEvents(place)
    const earlier = await beforeCopy(copy, first?.at, (source, of) => editsOf(source, of, paths))
    return [...earlier, ...(await store.editEvents(place, paths))]
  }

  /** What had happened in a copy's source when the copy was made. */
  async function beforeCopy<T extends WorkEvent>(
    copy: string | null,
    madeAt: string | undefined,
    eventsOf: (place: string, copy: string | null) => Promise<T[]>,
  ): Promise<T[]> {
    const base = copy === null ? null : readCopyBase(dataDir, copy)
    const source = base ? conversationOfCopy(base.source) : undefined
    if (!base || source === undefined) return []
    return (await eventsOf(base.source, source)).filter(({ at }) => madeAt === undefined || at <= madeAt)
  }

  /**
   * The checkpoint from which the changes of a copy count for the target: the copy's first files, or, if it was copied from
   * another copy, those with which that one left the target.
   */
  function originFor(copy: string, target: string): string | null {
    const base = readCopyBase(dataDir, copy)
    if (!base) return null
    const source = base.source === target ? null : conversationOfCopy(base.source)
    return source ? (originFor(source, target) ?? base.origin) : base.origin
  }

  /**
   * Returns the current files when each conversation has its own. Two conversations of one workspace have the same files,
   * so it returns their last checkpoints.
   */
  async function filesToCompare(
    tenant: string,
    from: ConversationId,
    to: ConversationId,
  ): Promise<[string | null, string | null]> {
    const places = [await workspaceIdOf(tenant, from), await workspaceIdOf(tenant, to)]
    const copies = places.map((place) => (place === null ? undefined : conversationOfCopy(place)))
    const [one, other] = copies
    if (one === undefined || other === undefined || one === other) {
      return [await tipOf(tenant, from), await tipOf(tenant, to)]
    }
    return [await snapshot(workspaceOf(one)), await snapshot(workspaceOf(other))]
  }

  /** Takes a checkpoint of the current files. It needs no frame, because the copy has the files. */
  async function snapshot(workspace: Workspace, parents: string[] = []): Promise<string> {
    const label = labels.beforeFork
    return (await translated(workspace.checkpoint({ label, parents, time: clock.now() }))).id
  }

  /** Creates a copy: an empty folder to which a checkpoint is restored. */
  async function fill(copy: string, target: string, from: string, source: string): Promise<void> {
    mkdirSync(join(dataDir, 'workspaces'), { recursive: true })
    writeFileSync(makingMark(dataDir, copy), '')
    mkdirSync(copyFolder(dataDir, copy))
    const workspace = thread.copy(copy)
    await translated(workspace.adopt(target))
    writeCopyBase(dataDir, copy, { origin: target, source, adoptions: [] })
    const label = labels.beforeFork
    const empty = await translated(workspace.checkpoint({ label, parents: [], time: clock.now() }))
    const { skipped } = await translated(workspace.restore({ target, safety: empty.id, paths: null }))
    const [first] = skipped
    if (!first) return copyIgnoreFiles(from, copyFolder(dataDir, copy))
    throw new WaymarkError('snapshot_failed', `The files could not be copied: ${first.path}: ${first.reason}`)
  }
}
