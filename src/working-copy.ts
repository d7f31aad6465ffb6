import { join } from 'node:path'
import type { Config } from './config.ts'
import { systemClock } from './core/clock.ts'
import type { WorkSessions } from './core/work-sessions.ts'
import { readOrMakeWorkspaceId } from './data-dir.ts'
import type { Log } from './http/env.ts'
import type { Store } from './main.ts'
import { holdAlone } from './stores/sqlite/hold-alone.ts'
import { shownPath, toBytePath } from './workspace/byte-path.ts'
import { type Examination, examine } from './workspace/doctor.ts'
import { dropDeleted, followLedger } from './workspace/repositories.ts'
import { createWorkSessions } from './workspace/work-sessions.ts'
import { openWorkspaceThread } from './workspace/workspace-thread.ts'

const HOUR_MS = 60 * 60 * 1000
/** How often it is looked whether another process has left something unfinished. */
const RECOVER_MS = 10_000
/** Whoever starts the server is served first. */
const LOOK_AFTER_MS = 1000
const UPKEEP_AFTER_MS = 60_000
const PROGRESS_FROM = 10_000
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'

/** The project's files: their checkpoints and work sessions, and what looks after them. */
export interface WorkingCopy {
  sessions: WorkSessions
  beforeWrite(path: string): Promise<void>
  /** Drops what deleted conversations leave; by itself it happens every hour. */
  dropDeleted(graceMs?: number): Promise<void>
  close(): Promise<void>
}

export function openWorkingCopy(config: Config, store: Store, log: Log): WorkingCopy {
  const { project: root, dataDir, workspaceId, include, exclude, maxFileBytes, watch } = config
  const workspace = openWorkspaceThread(
    {
      root,
      dataDir,
      include,
      exclude,
      maxFileBytes,
      watch,
      umask: process.umask(),
      path: programPath(config),
    },
    (files) => {
      if (files % PROGRESS_FROM === 0) log.info({ files }, 'looking at the files')
    },
  )
  const repositories = { store: store.work, workspace, workspaceId, dataDir }
  const sessions = createWorkSessions({
    ...repositories,
    ledger: store.ledger,
    clock: systemClock,
    log,
    hold: () => holdAlone(join(dataDir, 'workspace.lock')),
  })
  let isClosing = false

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      if (!isClosing) await work()
    } catch (error) {
      if (!isClosing) log.error({ err: error }, what)
    }
  }

  const recover = () => attempt('what was left unfinished could not be finished', () => sessions.recover())
  const drop = (graceMs?: number) =>
    attempt('what deleted conversations leave could not be dropped', () => dropDeleted(repositories, graceMs))
  const lookAhead = () => attempt('the files could not be looked at', () => workspace.lookAhead())
  const started = recover().then(() =>
    attempt('the repositories could not be brought up to date', () => followLedger(repositories)),
  )
  const timers = [
    setInterval(() => void recover(), RECOVER_MS),
    setTimeout(() => void lookAhead(), LOOK_AFTER_MS),
    setTimeout(() => void drop(), UPKEEP_AFTER_MS),
    setInterval(() => void drop(), HOUR_MS),
  ]
  for (const timer of timers) timer.unref()

  return {
    sessions,
    beforeWrite: (path) => workspace.beforeWrite(shownPath(toBytePath(path))),
    dropDeleted: drop,
    async close() {
      isClosing = true
      for (const timer of timers) clearTimeout(timer)
      sessions.stop()
      await started
      await workspace.close()
    },
  }
}

export { watchAgain } from './workspace/doctor.ts'

/** Looks at everything that is kept of the project's files. */
export async function examineWorkspace(
  config: Config,
  store: Store,
  onProgress: (text: string) => void,
): Promise<Examination> {
  const { dataDir } = config
  const workspaceId = await readOrMakeWorkspaceId(dataDir, config)
  return await examine({ store: store.work, workspaceId, dataDir, path: programPath(config), onProgress })
}

function programPath(config: Config): string {
  return config.commandEnvironment.PATH ?? USUAL_PATH
}
