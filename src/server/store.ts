import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolResults } from '../agent/tools/conversation.ts'
import type { Config } from '../config.ts'
import type { AgentStates } from '../core/agent-states.ts'
import type { AttachmentStore } from '../core/attachments.ts'
import type { BlobStore } from '../core/blobs.ts'
import { systemClock } from '../core/clock.ts'
import type { CollectionStore } from '../core/collection.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Rules } from '../core/questions.ts'
import type { Queue } from '../core/queue.ts'
import type { Responses } from '../core/responses.ts'
import type { IndexStore } from '../core/retrieval.ts'
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
import { createCollectionStore, readOrMakeStoreId } from '../stores/collection.ts'
import type { Engine } from '../stores/engine.ts'
import { type CommittedGroup, createGroupedWrites } from '../stores/grouped-writes.ts'
import { createIndexStore } from '../stores/index-store.ts'
import { createLedger } from '../stores/ledger.ts'
import { createQueue } from '../stores/queue.ts'
import { createResponses } from '../stores/responses.ts'
import { createRules } from '../stores/rules.ts'
import { openSqlite } from '../stores/sqlite/open.ts'
import { createTokenStore } from '../stores/tokens.ts'
import { createToolResults } from '../stores/tool-results.ts'
import { createFamilySource, createFamilyTarget } from '../stores/transfer.ts'
import { createUpkeep } from '../stores/upkeep.ts'
import { createWorkStore } from '../stores/work-store.ts'

const DATABASE_FILE = 'waymark.db'

/** Where a store is. */
export type StorePlace = Pick<Config, 'dataDir' | 'databaseUrl' | 'objectStorage'>

/** While it is locked nothing is collected, and no backup is made. */
export const COLLECT_LOCK = 'collect.lock'

/** Everything that is kept, by what it is for. */
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
  collection: CollectionStore
  familySource(): FamilySource
  familyTarget: FamilyTarget
  blobs: BlobStore
  /** No other process writes to this store. */
  isSingleProcess: boolean
  /** Whether no other database refers to them. */
  ownsBlobs(): Promise<boolean>
  close(): Promise<void>
}

/** Whether there is anything to open. */
export function hasStore(config: Pick<Config, 'dataDir' | 'databaseUrl'>): boolean {
  return config.databaseUrl !== null || existsSync(join(config.dataDir, DATABASE_FILE))
}

/** The store alone, for commands that work without a server. */
export async function openStore(
  config: StorePlace,
  options: {
    onCommitted?: (group: CommittedGroup) => void
    /** Where the blobs are; default: in the data folder. */
    blobsIn?: string
  } = {},
): Promise<Store> {
  await prepareDataDir(config.dataDir)
  const engine = await openEngine(config)
  const { blobs, ownsBlobs, closeBlobs } = await openBlobs(config, engine, options.blobsIn).catch(
    async (error: unknown) => {
      await engine.close()
      throw error
    },
  )
  const { onCommitted } = options
  const writes = createGroupedWrites({ engine, ...(onCommitted ? { onCommitted } : {}) })
  const ledger = createLedger({ engine, blobs, clock: systemClock, writes })
  return {
    ledger,
    queue: createQueue({ engine, clock: systemClock, writes }),
    states: createAgentStates({ engine, writes }),
    results: createToolResults({ engine, blobs }),
    tokens: createTokenStore(engine),
    upkeep: createUpkeep({ engine, blobs }),
    work: createWorkStore({ engine, clock: systemClock, writes }),
    index: createIndexStore(engine),
    attachments: createAttachments({ engine, blobs }),
    rules: createRules(engine),
    responses: createResponses({ engine, blobs, clock: systemClock, writes }),
    collection: createCollectionStore({ engine, clock: systemClock }),
    familySource: () => createFamilySource(engine),
    familyTarget: createFamilyTarget(engine, systemClock),
    blobs,
    isSingleProcess: engine.isSingleProcess,
    ownsBlobs,
    async close() {
      await ledger.close()
      closeBlobs()
    },
  }
}

async function openBlobs(config: StorePlace, engine: Engine, folder: string | undefined) {
  if (config.objectStorage === null || folder !== undefined) {
    const storeId = config.databaseUrl ? await readOrMakeStoreId(engine) : SQLITE
    const isAlone = claimBlobs(config.dataDir, storeId)
    const blobs = createFolderBlobs(folder ?? join(config.dataDir, 'blobs'))
    return { blobs, ownsBlobs: async () => isAlone(), closeBlobs: () => {} }
  }
  const storage = await openObjectStorage(config.objectStorage)
  const ownsBlobs = await claimS3Blobs(storage, await readOrMakeStoreId(engine))
  return { blobs: createS3Blobs(storage), ownsBlobs, closeBlobs: () => storage.close() }
}

export async function openEngine(config: Pick<Config, 'dataDir' | 'databaseUrl'>): Promise<Engine> {
  if (!config.databaseUrl) return await openSqlite(join(config.dataDir, DATABASE_FILE))
  // Loaded only when used: the driver is a tenth of the start-up time.
  const { openPostgres } = await import('../stores/postgres/open.ts')
  return await openPostgres(config.databaseUrl)
}
