import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ToolResults } from './agent/tools/conversation.ts'
import type { Config } from './config.ts'
import type { AgentStates } from './core/agent-states.ts'
import type { AttachmentStore } from './core/attachments.ts'
import type { BlobStore } from './core/blobs.ts'
import { systemClock, timestamp } from './core/clock.ts'
import { type CollectionStore, HOUR_MS } from './core/collection.ts'
import type { Ledger } from './core/ledger.ts'
import type { Rules } from './core/questions.ts'
import type { Queue } from './core/queue.ts'
import type { Responses } from './core/responses.ts'
import type { IndexStore } from './core/retrieval.ts'
import { hashToken, newSecret } from './core/secret.ts'
import type { TokenStore } from './core/tokens.ts'
import type { FamilySource, FamilyTarget } from './core/transfer.ts'
import type { Upkeep } from './core/upkeep.ts'
import type { WorkStore } from './core/work-sessions.ts'
import {
  announceServer,
  claimBlobs,
  prepareDataDir,
  preparePrivateDir,
  readOrMakeToken,
  readOrMakeTokenId,
  readOrMakeWorkspaceId,
  SQLITE,
} from './data-dir.ts'
import type { Log } from './http/env.ts'
import { createLog } from './http/log.ts'
import type { HttpServer } from './http/serve.ts'
import { openObjectStorage } from './object-storage/s3.ts'
import { type Scope, scopes } from './protocol/api/service.ts'
import { newId } from './protocol/ids.ts'
import { VERSION } from './protocol/version.ts'
import { createAgentStates } from './stores/agent-states.ts'
import { createAttachments } from './stores/attachments.ts'
import { createFolderBlobs } from './stores/blobs/folder.ts'
import { claimS3Blobs, createS3Blobs } from './stores/blobs/s3.ts'
import { createCollectionStore, readOrMakeStoreId } from './stores/collection.ts'
import type { Engine } from './stores/engine.ts'
import { type CommittedGroup, createGroupedWrites } from './stores/grouped-writes.ts'
import { createIndexStore } from './stores/index-store.ts'
import { createLedger } from './stores/ledger.ts'
import { createQueue } from './stores/queue.ts'
import { createResponses } from './stores/responses.ts'
import { createRules } from './stores/rules.ts'
import { holdAlone } from './stores/sqlite/hold-alone.ts'
import { openSqlite } from './stores/sqlite/open.ts'
import { createTokenStore } from './stores/tokens.ts'
import { createToolResults } from './stores/tool-results.ts'
import { createFamilySource, createFamilyTarget } from './stores/transfer.ts'
import { createUpkeep } from './stores/upkeep.ts'
import { createWorkStore } from './stores/work-store.ts'
import { createExports } from './transfer/export.ts'
import { createImports } from './transfer/import.ts'
import { type Collector, createCollector } from './workers/collector.ts'
import { createDeletions } from './workers/deletions.ts'
import { createForks } from './workers/forks.ts'
import { catchUpProjections } from './workers/rebuild.ts'
import { type ModelNote, startWorking, type Working } from './working.ts'
import { openWorkingCopy, type WorkingCopy } from './working-copy.ts'

const DATABASE_FILE = 'waymark.db'
const DAY_MS = 24 * 60 * 60 * 1000

export interface RunningServer {
  url: string
  /** Signs one browser in, once. */
  loginUrl: string
  token: string
  ledger: Ledger
  queue: Queue
  copy: WorkingCopy
  /** How many runs this process is working on. */
  activeRuns(): number
  /** What answers messages, as people should be told. */
  model: ModelNote
  sandbox: Working['sandbox']
  close(): Promise<void>
}

/** Another server has this data folder; two would not hear of each other's frames. */
export class InUse extends Error {}

/** Puts the server together and starts it. */
export async function startServer(given: Config): Promise<RunningServer> {
  // The HTTP layer loads while the store opens: together they are most of the start-up time.
  const loading = import('./http/serve.ts')
  await preparePrivateDir(given.privateDir, given.project)
  await prepareDataDir(given.dataDir)
  const config = { ...given, workspaceId: await readOrMakeWorkspaceId(given.dataDir, given) }
  // On Postgres many processes serve one store.
  const release = config.databaseUrl ? () => {} : holdAlone(join(config.dataDir, 'server.lock'))
  if (!release) throw new InUse(`${config.dataDir} is in use`)
  let http: HttpServer | null = null
  let store: Store | null = null
  let working: Working | null = null
  let copy: WorkingCopy | null = null
  let collector: Collector | null = null
  const log = createLog(config.logLevel)
  const close = async () => {
    // Streams end first, so that nobody is shown a run that seems to hang.
    await http?.close()
    await collector?.stop()
    await working?.stop()
    await copy?.close()
    await store?.close()
    release()
  }
  try {
    store = await openStore(config, { onCommitted: (group) => http?.committed(group) })
    const token = config.token ?? (await readOrMakeToken(config.privateDir))
    await registerLocalToken(store.tokens, token, config.privateDir)
    await catchUpProjections(store.upkeep)

    // Whoever held runs of this file is gone: nobody need wait for their leases to end.
    if (!config.databaseUrl) await store.queue.release()
    copy = openWorkingCopy(config, store, log)
    working = await startWorking(config, store, copy, log)
    copy.onFilesChanged(working.filesChanged)
    const retentionMs = config.retentionHours * HOUR_MS
    const { dropUnreachable } = copy
    collector = createCollector({
      store: store.collection,
      blobs: store.blobs,
      ownsBlobs: store.ownsBlobs,
      clock: systemClock,
      retentionMs,
      dropFiles: () => dropUnreachable(),
      hold: () => holdAlone(join(config.dataDir, COLLECT_LOCK)),
      log,
      onCollected: (report, seconds) => http?.collected(report, seconds),
    })

    const { ledger, tokens, queue } = store
    const { host, port, workspaceId } = config
    const loginCode = newSecret()
    const { serveHttp, readWebFiles } = await loading
    const signIn = { loginCodes: new Set([loginCode]), localToken: token }
    const address = { host, port, allowedHosts: [...config.allowedHosts, hostInUrl(host)] }
    const parts = { ledger, queue, tokens, log, workspaceId, sessions: copy.sessions }
    const isOnlyServer = config.databaseUrl === null
    const deletions = createDeletions({ ledger, queue, clock: systemClock, retentionMs })
    const forks = createForks({ ledger, sessions: copy.sessions, clock: systemClock, log })
    const transfers = createTransfers(config, store, copy, log)
    const { collection, responses, attachments, results, rules } = store
    const { preview } = working
    const lines = { deletions, forks, collector, collection, responses, attachments, results, rules, preview }
    const about = {
      version: VERSION,
      workspace_id: workspaceId,
      project: basename(config.project),
      model: { name: working.model.name, is_demo: working.model.isDemo },
      sandbox: working.sandbox.name,
    }
    const page = { about, web: readWebFiles(webFolder()) }
    http = await serveHttp({
      ...page,
      ...parts,
      ...lines,
      ...transfers,
      isOnlyServer,
      clock: systemClock,
      ...signIn,
      ...address,
    })
    collector.start(config.gcMinutes * 60_000)
    const url = `http://${hostInUrl(host)}:${http.port}`
    const withdraw = await announceServer(config.privateDir, url)
    return {
      url,
      loginUrl: `${url}/login?code=${loginCode}`,
      token,
      ledger,
      queue,
      copy,
      activeRuns: working.active,
      model: working.model,
      sandbox: working.sandbox,
      async close() {
        await withdraw()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Families that leave, and families that enter. */
function createTransfers(config: Config, store: Store, { sessions, bundles }: WorkingCopy, log: Log) {
  const { workspaceId } = config
  const scratchFile = () => {
    mkdirSync(join(config.dataDir, 'tmp'), { recursive: true, mode: 0o700 })
    return join(config.dataDir, 'tmp', `transfer-${randomBytes(8).toString('hex')}`)
  }
  const hold = () => holdAlone(join(config.dataDir, COLLECT_LOCK))
  const shared = { source: store.familySource, blobs: store.blobs, scratchFile, hold, log }
  return {
    scratchFile,
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

/** Where the build puts the page, seen from the sources and from what is built of them. */
function webFolder(): string {
  const isBuilt = import.meta.url.endsWith('.js')
  return fileURLToPath(new URL(isBuilt ? './web/' : '../dist/web/', import.meta.url))
}

/** While it is locked nothing is collected, and no backup is made. */
export const COLLECT_LOCK = 'collect.lock'

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
  /** Whether no other database refers to them. */
  ownsBlobs(): Promise<boolean>
  close(): Promise<void>
}

export { rebuildProjections } from './workers/rebuild.ts'
export { verifyLedger } from './workers/verify.ts'
export { sandboxHere } from './working.ts'
export { examineWorkspace, watchAgain } from './working-copy.ts'

/** Where a store is. */
export type StorePlace = Pick<Config, 'dataDir' | 'databaseUrl' | 'objectStorage'>

/** Makes a token and returns its secret, which is kept nowhere. */
export async function issueToken(
  tokens: TokenStore,
  wanted: { name: string; tenant: string; scopes: Scope[]; days: number | null },
): Promise<string> {
  const { name, tenant, scopes, days } = wanted
  const secret = newSecret()
  const now = systemClock.now()
  const createdAt = timestamp(now)
  const expiresAt = days === null ? null : timestamp(now + days * DAY_MS)
  const id = newId('tok', now)
  await tokens.put(hashToken(secret), { id, tenant, name, scopes, createdAt, expiresAt, parentId: null })
  return secret
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
  const { openPostgres } = await import('./stores/postgres/open.ts')
  return await openPostgres(config.databaseUrl)
}

async function registerLocalToken(tokens: TokenStore, token: string, privateDir: string): Promise<void> {
  await tokens.put(hashToken(token), {
    // Always the same for this folder: setting another token ends the one before.
    id: await readOrMakeTokenId(privateDir),
    tenant: 'default',
    name: 'local',
    scopes: [...scopes],
    createdAt: timestamp(systemClock.now()),
    expiresAt: null,
    parentId: null,
  })
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
