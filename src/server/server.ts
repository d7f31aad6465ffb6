import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config.ts'
import { systemClock } from '../core/clock.ts'
import { HOUR_MS } from '../core/collection.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Queue } from '../core/queue.ts'
import { newSecret } from '../core/secret.ts'
import {
  announceServer,
  prepareDataDir,
  preparePrivateDir,
  readOrMakeToken,
  readOrMakeWorkspaceId,
} from '../data-dir.ts'
import { createLog } from '../http/log.ts'
import type { HttpServer } from '../http/serve.ts'
import { createDeletions } from '../lines/deletions.ts'
import { createForks } from '../lines/forks.ts'
import { VERSION } from '../protocol/version.ts'
import { holdAlone } from '../stores/sqlite/hold-alone.ts'
import { type Collector, createCollector } from '../workers/collector.ts'
import { catchUpProjections } from '../workers/rebuild.ts'
import { type Answering, type ModelNote, startAnswering } from './answering.ts'
import { openProjectFiles, type ProjectFiles } from './project-files.ts'
import { COLLECT_LOCK, openStore, type Store } from './store.ts'
import { registerLocalToken } from './tokens.ts'
import { createTransfers } from './transfers.ts'

export interface RunningServer {
  url: string
  /** Signs one browser in, once. */
  loginUrl: string
  token: string
  ledger: Ledger
  queue: Queue
  files: ProjectFiles
  /** How many runs this process is answering on. */
  activeRuns(): number
  /** What answers messages, as people should be told. */
  model: ModelNote
  sandbox: Answering['sandbox']
  close(): Promise<void>
}

/** Another server uses this data folder. Two would not notice each other's frames. */
export class InUse extends Error {}

/** Puts the server together and starts it. */
export async function startServer(given: Config): Promise<RunningServer> {
  // The HTTP layer loads while the store opens: together they are most of the start-up time.
  const loading = import('../http/serve.ts')
  await preparePrivateDir(given.privateDir, given.project)
  await prepareDataDir(given.dataDir)
  const config = { ...given, workspaceId: await readOrMakeWorkspaceId(given.dataDir, given) }
  // SQLite has one server for each data folder; on Postgres many processes share a store.
  const release = config.databaseUrl ? () => {} : holdAlone(join(config.dataDir, 'server.lock'))
  if (!release) throw new InUse(`${config.dataDir} is in use`)
  let http: HttpServer | null = null
  let store: Store | null = null
  let answering: Answering | null = null
  let files: ProjectFiles | null = null
  let collector: Collector | null = null
  const log = createLog(config.logLevel)
  const close = async () => {
    // End streams first, so that no client shows a run that seems to hang.
    await http?.close()
    await collector?.stop()
    await answering?.stop()
    await files?.close()
    await store?.close()
    release()
  }
  try {
    store = await openStore(config, { onCommitted: (group) => http?.committed(group) })
    const token = config.token ?? (await readOrMakeToken(config.privateDir))
    await registerLocalToken(store.tokens, token, config.privateDir)
    await catchUpProjections(store.upkeep)

    // No other process holds runs of this store: release their leases instead of waiting for them to expire.
    if (store.isSingleProcess) await store.queue.release()
    files = openProjectFiles(config, store, log)
    answering = await startAnswering(config, store, files, log)
    files.onFilesChanged(answering.filesChanged)
    const retentionMs = config.retentionHours * HOUR_MS
    const { dropUnreachable } = files
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
    const parts = { ledger, queue, tokens, log, workspaceId, sessions: files.sessions }
    const isOnlyServer = store.isSingleProcess
    const deletions = createDeletions({ ledger, queue, clock: systemClock, retentionMs })
    const forks = createForks({ ledger, sessions: files.sessions, clock: systemClock, log })
    const transfers = createTransfers(config, store, files, log)
    const { collection, responses, attachments, results, rules } = store
    const { preview } = answering
    const lines = { deletions, forks, collector, collection, responses, attachments, results, rules, preview }
    const about = {
      version: VERSION,
      workspace_id: workspaceId,
      project: basename(config.project),
      model: { name: answering.model.name, is_demo: answering.model.isDemo },
      sandbox: answering.sandbox.name,
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
      files,
      activeRuns: answering.active,
      model: answering.model,
      sandbox: answering.sandbox,
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

/** Where the build puts the page, seen from the sources and from what is built of them. */
function webFolder(): string {
  const isBuilt = import.meta.url.endsWith('.js')
  return fileURLToPath(new URL(isBuilt ? '../web/' : '../../dist/web/', import.meta.url))
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
