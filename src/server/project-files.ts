import { dirname, join } from 'node:path'
import type { EditFile } from '../agent/tools/confined-folder.ts'
import type { Config } from '../config.ts'
import type { Log } from '../core/log.ts'
import { readOrMakeWorkspaceId } from '../data-dir.ts'
import { holdAlone } from '../file-lock/hold-alone.ts'
import { copyWorkspaceId, parseCopyWorkspaceId } from '../protocol/ids.ts'
import { shownPath, toBytePath } from '../workspace/byte-path.ts'
import { type Examination, examine } from '../workspace/doctor.ts'
import { dropUnreachable, followLedger } from '../workspace/repositories.ts'
import { copyFolder } from '../workspace/repository.ts'
import { createSessionsByWorkspace, type SessionsByWorkspace } from '../workspace/sessions-by-workspace.ts'
import type { Workspace } from '../workspace/workspace.ts'
import { openWorkspaceThread } from '../workspace/workspace-thread.ts'
import { createHookRunners, programPath } from './commands.ts'
import type { Store } from './store.ts'
import { systemClock } from './system-clock.ts'

/** How often to look for changes that another process left unfinished. */
const RECOVER_MS = 10_000
/** Delay before scanning the files, so that the first requests are answered first. */
const LOOK_AFTER_MS = 1000
const PROGRESS_FROM = 10_000

/** The project's files and the working copies of its conversations: checkpoints, work sessions, and their upkeep. */
export interface ProjectFiles {
  sessions: SessionsByWorkspace
  /** Exports and imports checkpoints. */
  bundles: Pick<Workspace, 'writeBundle' | 'readBundle' | 'has'>
  /** The folder that tools work in. */
  folderOf(workspaceId: string): ToolFolder
  /** Removes files that no conversation reaches; returns the number of bytes. */
  dropUnreachable(graceMs?: number): Promise<number>
  /** Registers a listener for restored files. */
  onFilesChanged(tell: (workspaceId: string) => Promise<void>): void
  close(): Promise<void>
}

const noMore: Record<string, string> = {}

interface ToolFolder {
  root: string
  /** True for a conversation's own working copy, false for the project itself. */
  isCopy: boolean
  /** Additional environment variables for commands. */
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
        if (files % PROGRESS_FROM === 0) log.info({ files }, 'scanning files')
      },
      onRescued(files) {
        log.error(
          { files },
          'programs wrote to files after they had been replaced; the rescued files are in the data folder',
        )
      },
    },
  )
  let tellChanged: (id: string) => Promise<void> = async () => {}
  const sessions = createSessionsByWorkspace({
    onFilesChanged: (id) => tellChanged(id),
    store: store.work,
    ledger: store.ledger,
    thread,
    programPath: programPath(config),
    hookRunner: createHookRunners(config),
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

  const recover = () => attempt('could not finish what was left unfinished', () => sessions.recover())
  const lookAhead = () => attempt('could not scan the files', () => thread.lookAhead())
  const started = recover().then(() =>
    attempt('could not update the repositories', () => followLedger(repositories)),
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
      const found = parseCopyWorkspaceId(id)
      const copy = found?.workspaceId === workspaceId ? found.conversationId : null
      const workspace = copy === null ? thread : thread.copy(copy)
      const folder = copy === null ? root : copyFolder(dataDir, copy)
      return {
        root: folder,
        isCopy: copy !== null,
        // A copy has no repository of its own; git must not use the project's instead.
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

/** Examines everything stored about the project's files. */
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
