import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolResults } from '../agent/tools/conversation.ts'
import type { Config } from '../config.ts'
import type { AgentStates } from '../core/agent-states.ts'
import type { AttachmentStore } from '../core/attachments.ts'
import type { BlobStore } from '../core/blobs.ts'
import type { CollectionStore } from '../core/collection.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Operations } from '../core/operations.ts'
import type { Rules } from '../core/questions.ts'
import type { Queue } from '../core/queue.ts'
import type { Responses } from '../core/responses.ts'
import type { IndexStore } from '../core/retrieval.ts'
import type { AppendImported } from '../core/session-imports.ts'
import type { StatsStore } from '../core/stats.ts'
import type { TokenStore } from '../core/tokens.ts'
import type { FamilySource, FamilyTarget } from '../core/transfer.ts'
import type { Upkeep } from '../core/upkeep.ts'
import type { WorkStore } from '../core/work-sessions.ts'
import { claimBlobs, prepareDataDir, SQLITE } from '../data-dir.ts'
import { openObjectStorage } from '../object-storage/s3.ts'
import { createAgentStates } from '../stores/agent-states.ts'
import { createAttachments } from '../stores/attachments.ts'
import { createFolderBlobs } from '../stores/blobs/folder.ts'
import { claimS3Blobs, createS3Blobs } from '../stores/blobs/s3.ts'
import { createIndexStore } from '../stores/chunk-index.ts'
import { createCollectionStore, readOrMakeStoreId } from '../stores/collection.ts'
import { type CommittedGroup, createDatabase, type Database } from '../stores/database.ts'
import type { Engine } from '../stores/engine.ts'
import { createLedger } from '../stores/ledger.ts'
import { createOperations } from '../stores/operations.ts'
import { createQueue } from '../stores/queue.ts'
import { createResponses } from '../stores/responses.ts'
import { createRules } from '../stores/rules.ts'
import { createAppendImported } from '../stores/session-imports.ts'
import { openSqlite } from '../stores/sqlite/open.ts'
import { createStats } from '../stores/stats.ts'
import { createTokenStore } from '../stores/tokens.ts'
import { createToolResults } from '../stores/tool-results.ts'
import { createFamilySource, createFamilyTarget } from '../stores/transfer.ts'
import { createUpkeep } from '../stores/upkeep.ts'
import { createWorkStore } from '../stores/work-store.ts'
import { systemClock } from './system-clock.ts'

const DATABASE_FILE = 'waymark.db'

/** The location of a store. */
export type StorePlace = Pick<Config, 'dataDir' | 'databaseUrl' | 'objectStorage'>

/** While this file is locked, no collection or backup runs. */
export const COLLECT_LOCK = 'collect.lock'

/** Everything that is stored, by purpose. */
export interface Store {
  ledger: Ledger
  queue: Queue
  states: AgentStates
  results: ToolResults
  tokens: TokenStore
  upkeep: Upkeep
  work: WorkStore
  responses: Responses
  index: IndexStore
  attachments: AttachmentStore
  rules: Rules
  operations: Operations
  stats: StatsStore
  collection: CollectionStore
  familySource(): FamilySource
  familyTarget: FamilyTarget
  appendImported: AppendImported
  blobs: BlobStore
  /** True if no other process writes to this store. */
  isSingleProcess: boolean
  /** True if no other database refers to the blobs. */
  ownsBlobs(): Promise<boolean>
  close(): Promise<void>
}

/** True if there is a store to open. */
export function hasStore(config: Pick<Config, 'dataDir' | 'databaseUrl'>): boolean {
  return config.databaseUrl !== null || existsSync(join(config.dataDir, DATABASE_FILE))
}

/** Opens the store alone, for commands that work without a server. */
export async function openStore(
  config: StorePlace,
  options: {
    onCommitted?: (group: CommittedGroup) => void
    /** The folder of the blobs; default: in the data folder. */
    blobsIn?: string
  } = {},
): Promise<Store> {
  await prepareDataDir(config.dataDir)
  const engine = await openEngine(config)
  const { onCommitted } = options
  const database = createDatabase({ engine, ...(onCommitted ? { onCommitted } : {}) })
  const { blobs, ownsBlobs, closeBlobs } = await openBlobs(config, database, options.blobsIn).catch(
    async (error: unknown) => {
      await database.close()
      throw error
    },
  )
  const clock = systemClock
  const ledger = createLedger({ database, blobs, clock })
  return {
    ledger,
    queue: createQueue({ database, clock }),
    states: createAgentStates({ database }),
    results: createToolResults({ database, blobs }),
    tokens: createTokenStore(database),
    upkeep: createUpkeep({ database, blobs }),
    work: createWorkStore({ database, clock }),
    index: createIndexStore(database),
    attachments: createAttachments({ database, blobs }),
    rules: createRules(database, clock),
    operations: createOperations(database, clock),
    stats: createStats(database),
    responses: createResponses({ database, blobs, clock }),
    collection: createCollectionStore({ database, clock }),
    familySource: () => createFamilySource(database),
    familyTarget: createFamilyTarget(database, clock),
    appendImported: createAppendImported({ database, blobs }),
    blobs,
    isSingleProcess: engine.isSingleProcess,
    ownsBlobs,
    async close() {
      await ledger.close()
      closeBlobs()
    },
  }
}

async function openBlobs(config: StorePlace, database: Database, folder: string | undefined) {
  if (config.objectStorage === null || folder !== undefined) {
    const storeId = config.databaseUrl ? await readOrMakeStoreId(database) : SQLITE
    const isAlone = claimBlobs(config.dataDir, storeId)
    const blobs = createFolderBlobs(folder ?? join(config.dataDir, 'blobs'))
    return { blobs, ownsBlobs: async () => isAlone(), closeBlobs: () => {} }
  }
  const storage = await openObjectStorage(config.objectStorage)
  const ownsBlobs = await claimS3Blobs(storage, await readOrMakeStoreId(database))
  return { blobs: createS3Blobs(storage), ownsBlobs, closeBlobs: () => storage.close() }
}

export async function openEngine(config: Pick<Config, 'dataDir' | 'databaseUrl'>): Promise<Engine> {
  if (!config.databaseUrl) return await openSqlite(join(config.dataDir, DATABASE_FILE))
  // Loaded only when used: the driver takes a tenth of the start-up time.
  const { openPostgres } = await import('../stores/postgres/open.ts')
  return await openPostgres(config.databaseUrl)
}
