import { dirname, join } from 'node:path'
import type { EditFile } from '../agent/tools/confined-folder.ts'
import type { Config } from '../config.ts'
import { systemClock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { readOrMakeWorkspaceId } from '../data-dir.ts'
import { copyOf, copyWorkspaceId } from '../protocol/ids.ts'
import { safePath } from '../sandbox/paths.ts'
import { holdAlone } from '../stores/sqlite/hold-alone.ts'
import { type AllSessions, createAllSessions } from '../workspace/all-sessions.ts'
import { shownPath, toBytePath } from '../workspace/byte-path.ts'
import { type Examination, examine } from '../workspace/doctor.ts'
import { dropUnreachable, followLedger } from '../workspace/repositories.ts'
import { copyFolder } from '../workspace/repository.ts'
import type { Workspace } from '../workspace/workspace.ts'
import { openWorkspaceThread } from '../workspace/workspace-thread.ts'
import type { Store } from './store.ts'

/** How often it is looked whether another process has left something unfinished. */
const RECOVER_MS = 10_000
/** Answer the first requests before scanning the files. */
const LOOK_AFTER_MS = 1000
const PROGRESS_FROM = 10_000
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'

/** The project's files and the working copies of its conversations: checkpoints, work sessions, what looks after them. */
export interface ProjectFiles {
  sessions: AllSessions
  /** Checkpoints that leave, and checkpoints that enter. */
  bundles: Pick<Workspace, 'writeBundle' | 'readBundle' | 'has'>
  /** What tools work on. */
  folderOf(workspaceId: string): ToolFolder
  /** Drops files that no conversation reaches any more; returns how many bytes. */
  dropUnreachable(graceMs?: number): Promise<number>
  /** Registers a listener for restored files. */
  onFilesChanged(tell: (workspaceId: string) => Promise<void>): void
  close(): Promise<void>
}

const noMore: Record<string, string> = {}

interface ToolFolder {
  root: string
  /** A working copy of a conversation's own, not the project itself. */
  isCopy: boolean
  /** What commands see besides the usual. */
  environment: Record<string, string>
  editFile: EditFile
  hashes(paths: readonly string[]): Promise<(string | null)[]>
}

export function openProjectFiles(config: Config, store: Store, log: Log): ProjectFiles {
  const { project: root, dataDir, workspaceId, include, exclude, maxFileBytes, watch } = config
  const thread = openWorkspaceThread(
    {
      root,
      dataDir,
      include,
      exclude,
      maxFileBytes,
      watch,
      rootLock: join(config.privateDir, 'files.lock'),
      umask: process.umask(),
      path: programPath(config),
      mirror: config.objectStorage && { storage: config.objectStorage, workspaceId },
    },
    {
      onProgress(files) {
        if (files % PROGRESS_FROM === 0) log.info({ files }, 'looking at the files')
      },
      onRescued(files) {
        log.error(
          { files },
          'files were written to after they had been replaced; they are in the data folder',
        )
      },
    },
  )
  let tellChanged: (id: string) => Promise<void> = async () => {}
  const sessions = createAllSessions({
    onFilesChanged: (id) => tellChanged(id),
    store: store.work,
    ledger: store.ledger,
    thread,
    root,
    workspaceId,
    dataDir,
    clock: systemClock,
    log,
    hold: holdAlone,
    isAlone: store.isSingleProcess,
  })
  const repositories = {
    store: { ...store.work, checkpointsRemoved: store.collection.checkpointsRemoved },
    workspace: thread,
    workspaceIds: sessions.workspaceIds,
    copyId: (id: string) => copyWorkspaceId(workspaceId, id),
    dataDir,
  }
  let isClosing = false

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      if (!isClosing) await work()
    } catch (error) {
      if (!isClosing) log.error({ err: error }, what)
    }
  }

  const recover = () => attempt('what was left unfinished could not be finished', () => sessions.recover())
  const lookAhead = () => attempt('the files could not be looked at', () => thread.lookAhead())
  const started = recover().then(() =>
    attempt('the repositories could not be brought up to date', () => followLedger(repositories)),
  )
  const timers = [
    setInterval(() => void recover(), RECOVER_MS),
    setTimeout(() => void lookAhead(), LOOK_AFTER_MS),
  ]
  for (const timer of timers) timer.unref()

  return {
    sessions,
    bundles: thread,
    folderOf(id) {
      const found = copyOf(id)
      const copy = found?.workspaceId === workspaceId ? found.conversationId : null
      const workspace = copy === null ? thread : thread.copy(copy)
      const folder = copy === null ? root : copyFolder(dataDir, copy)
      return {
        root: folder,
        isCopy: copy !== null,
        // A copy has no repository of its own, and the project's is not to be taken for one.
        environment: copy === null ? noMore : { GIT_CEILING_DIRECTORIES: dirname(folder) },
        editFile: (command) => sessions.editFile({ ...command, path: shownPath(toBytePath(command.path)) }),
        hashes: (paths) => workspace.hashes(paths),
      }
    },
    dropUnreachable: (graceMs) => dropUnreachable(repositories, graceMs),
    onFilesChanged(tell) {
      tellChanged = tell
    },
    async close() {
      isClosing = true
      for (const timer of timers) clearTimeout(timer)
      sessions.stop()
      await started
      await thread.close()
    },
  }
}

export { watchAgain } from '../workspace/doctor.ts'

/** Looks at everything that is kept of the project's files. */
export async function examineWorkspace(
  config: Config,
  store: Store,
  onProgress: (text: string) => void,
): Promise<Examination> {
  const { dataDir } = config
  const workspaceId = await readOrMakeWorkspaceId(dataDir, config)
  const path = programPath(config)
  const found = await examine({ store: store.work, workspaceId, dataDir, path, onProgress })
  onProgress('checking every blob …')
  for await (const { flaw } of store.upkeep.contents()) if (flaw !== null) found.problems.push(flaw)
  return found
}

/** Our own programs are never looked for in the project. */
export function programPath(config: Pick<Config, 'commandEnvironment' | 'project'>): string {
  return safePath(config.commandEnvironment.PATH ?? USUAL_PATH, config.project)
}
