import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createSessionImports } from '../agent-sessions/session-imports.ts'
import type { Config } from '../config.ts'
import type { Log } from '../core/log.ts'
import { holdAlone } from '../file-lock/hold-alone.ts'
import { VERSION } from '../protocol/version.ts'
import { createExports } from '../transfer/export.ts'
import { createImports } from '../transfer/import.ts'
import type { ProjectFiles } from './project-files.ts'
import { COLLECT_LOCK, type Store } from './store.ts'
import { systemClock } from './system-clock.ts'

/** Export and import of conversations. */
export function createTransfers(config: Config, store: Store, { sessions, bundles }: ProjectFiles, log: Log) {
  const { workspaceId } = config
  const scratchFile = () => {
    mkdirSync(join(config.dataDir, 'tmp'), { recursive: true, mode: 0o700 })
    return join(config.dataDir, 'tmp', `transfer-${randomBytes(8).toString('hex')}`)
  }
  const hold = () => holdAlone(join(config.dataDir, COLLECT_LOCK))
  const shared = { source: store.familySource, blobs: store.blobs, scratchFile, hold, log }
  return {
    scratchFile,
    sessionImports: createSessionImports({
      ledger: store.ledger,
      append: store.appendImported,
      keep: store.results.keep,
      workspaceId,
      clock: systemClock,
    }),
    exports: createExports({
      ...shared,
      snapshotCopy: sessions.snapshotCopy,
      writeBundle: bundles.writeBundle,
      clock: systemClock,
      version: VERSION,
    }),
    imports: createImports({
      ...shared,
      target: store.familyTarget,
      readBundle: bundles.readBundle,
      has: bundles.has,
      makeCopy: sessions.importCopy,
      workspaceId,
    }),
  }
}
