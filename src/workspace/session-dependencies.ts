import type { Clock } from '../core/clock.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { WorkStore } from '../core/work-sessions.ts'
import type { Workspace } from './workspace.ts'

export interface WorkSessionsDependencies {
  store: WorkStore
  ledger: Pick<Ledger, 'append'>
  workspace: Workspace
  workspaceId: string
  dataDir: string
  clock: Clock
  log: Log
  /** Called after files were restored, before the caller gets its answer. */
  onFilesChanged?: (workspaceId: string) => Promise<void>
  /** Locks the files against other processes; null when one holds the lock. The system releases it if we end. */
  hold(): (() => void) | null
}
