import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config.ts'
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
import { holdAlone } from '../file-lock/hold-alone.ts'
import type { HttpServer } from '../http/serve.ts'
import { createDeletions } from '../lines/deletions.ts'
import { createForks } from '../lines/forks.ts'
import { createUndoRedo } from '../lines/undo.ts'
import { VERSION } from '../protocol/version.ts'
import { type Collector, createCollector } from '../workers/collector.ts'
import { catchUpProjections } from '../workers/rebuild.ts'
import { type Answering, startAnswering } from './answering.ts'
import { createLog } from './logger.ts'
import type { ModelNote } from './models.ts'
import { openProjectFiles, type ProjectFiles } from './project-files.ts'
import { createProjects } from './projects.ts'
import { COLLECT_LOCK, openStore, type Store } from './store.ts'
import { systemClock } from './system-clock.ts'
import { registerLocalToken } from './tokens.ts'
import { createTransfers } from './transfers.ts'

export interface RunningServer {
  url: string
  /** Signs in one browser, once. */
  loginUrl: string
  token: string
  ledger: Ledger
  queue: Queue
  files: ProjectFiles
  /** Number of runs in progress in this process. */
  activeRuns(): number
  /** The model, as shown to people. */
  model: ModelNote
  /** What is wrong with the model, once its server has been asked. */
  modelProblem: Promise<string | null>
  sandbox: Answering['sandbox']
  close(): Promise<void>
}

const MOST_LINKS = 20

/** Another server uses this data folder; two servers would not notice each other's frames. */
export class InUse extends Error {}

/** Assembles and starts the server of a project. `projects` are all that this process serves. */
export async function startServer(given: Config, projects = createProjects()): Promise<RunningServer> {
  // The HTTP layer loads while the store opens: together they are most of the start-up time.
  const loading = import('../http/serve.ts')
  await preparePrivateDir(given.privateDir, given.project)
  await prepareDataDir(given.dataDir)
  const config = { ...given, workspaceId: await readOrMakeWorkspaceId(given.dataDir, given) }
  // SQLite allows one server per data folder; on Postgres many processes share a store.
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
    let ownUrl = ''
    answering = await startAnswering(config, store, files, log, () => `${ownUrl}/gateway`)
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
    const { serveHttp, readWebFiles } = await loading
    const loginCodes = new Set<string>()
    const signIn = { loginCodes, localToken: token }
    const address = { host, port, allowedHosts: [...config.allowedHosts, hostInUrl(host)] }
    const parts = { ledger, queue, tokens, log, workspaceId, sessions: files.sessions }
    const isOnlyServer = store.isSingleProcess
    const deletions = createDeletions({ ledger, queue, clock: systemClock, retentionMs })
    const forks = createForks({ ledger, sessions: files.sessions, clock: systemClock, workspaceId })
    const { operations, stats } = store
    const undoRedo = createUndoRedo({ operations, ledger, deletions, sessions: files.sessions })
    const transfers = createTransfers(config, store, files, log)
    const { collection, responses, attachments, results, rules } = store
    const { preview } = answering
    const lines = {
      deletions,
      undoRedo,
      stats,
      forks,
      collector,
      collection,
      responses,
      attachments,
      results,
      rules,
      preview,
    }
    const about = {
      version: VERSION,
      workspace_id: workspaceId,
      project: basename(config.project),
      sandbox: answering.sandbox.name,
    }
    const { models } = answering
    const aboutNow = () => {
      const { name, isDemo, problem } = models.note()
      return { ...about, model: { name, is_demo: isDemo, problem } }
    }
    const page = {
      about: aboutNow,
      listModels: models.list,
      listAgents: answering.listAgents,
      projects: { list: () => projects.list(ownUrl), link: projects.link },
      web: readWebFiles(webFolder()),
    }
    http = await serveHttp({
      ...page,
      ...parts,
      ...lines,
      ...transfers,
      isOnlyServer,
      gateway: { ...answering.gateway, origins: gatewayOrigins(config) },
      clock: systemClock,
      ...signIn,
      ...address,
    })
    collector.start(config.gcMinutes * 60_000)
    const url = `http://${hostInUrl(host)}:${http.port}`
    ownUrl = url
    const withdraw = await announceServer(config.privateDir, url)
    const newLoginUrl = () => {
      const code = newSecret()
      loginCodes.add(code)
      // A link that was never opened must not stay valid for ever, nor fill the memory.
      for (const old of [...loginCodes].slice(0, -MOST_LINKS)) loginCodes.delete(old)
      return `${url}/login?code=${code}`
    }
    const leave = projects.add({ name: about.project, url, newLoginUrl })
    return {
      url,
      loginUrl: newLoginUrl(),
      token,
      ledger,
      queue,
      files,
      activeRuns: answering.active,
      model: answering.models.note(),
      modelProblem: answering.models.checked,
      sandbox: answering.sandbox,
      async close() {
        leave()
        await withdraw()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** The folder of the built page, seen from the sources or from the build. */
function webFolder(): string {
  const isBuilt = import.meta.url.endsWith('.js')
  return fileURLToPath(new URL(isBuilt ? '../web/' : '../../dist/web/', import.meta.url))
}

function gatewayOrigins({ gatewayUpstreams }: Config): string[] {
  return Object.values(gatewayUpstreams).map((url) => new URL(url).origin)
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
