import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createAgent, loadGraph } from '../agent/agent.ts'
import { createAgents } from '../agent/agents.ts'
import { indexName } from '../agent/assembly.ts'
import type { HostedAgent } from '../agent/hosted/hosted-agent.ts'
import { createMcpTools } from '../agent/mcp.ts'
import type { AgentSetting, Contexts } from '../agent/setting.ts'
import { openConfinedFolder } from '../agent/tools/confined-folder.ts'
import type { ToolResults } from '../agent/tools/conversation.ts'
import { conversationTools } from '../agent/tools/conversation.ts'
import { fileTools } from '../agent/tools/files.ts'
import { runCommandTool } from '../agent/tools/run-command.ts'
import type { Tool } from '../agent/tools/tool.ts'
import { walkTools } from '../agent/tools/walk.ts'
import { type Config, ConfigError } from '../config.ts'
import { type Agent, ModelFailure } from '../core/agent.ts'
import type { Log } from '../core/log.ts'
import type { Embedder } from '../core/retrieval.ts'
import { startDemoModel } from '../demo-model/server.ts'
import { createGateway } from '../gateway/gateway.ts'
import { createHostedTraffic } from '../gateway/hosted-traffic.ts'
import { createObservedSessions } from '../gateway/observed-sessions.ts'
import { changedFiles } from '../git/status.ts'
import { describeRepository } from '../git/user-repository.ts'
import type { GatewayDependencies } from '../http/app-dependencies.ts'
import { createLocalEmbedder, createOpenAiEmbedder } from '../retrieval/embedders.ts'
import { createRetrieval, type Retrieval } from '../retrieval/retrieval.ts'
import type { FoundSandbox } from '../sandbox/confined-place.ts'
import { realOf } from '../sandbox/paths.ts'
import { createRunWorker } from '../workers/run-worker.ts'
import { commandOptions, confinementOf, programPath, sandboxHere } from './commands.ts'
import { createHostedAgents, type HostedAgents } from './hosted-agents.ts'
import { type ModelServer, needsDemo } from './model-servers.ts'
import { createModels, type Models } from './models.ts'
import type { ProjectFiles } from './project-files.ts'
import type { Store } from './store.ts'
import { systemClock } from './system-clock.ts'

/** Delay before loading the graph, so that the first requests are answered first. */
const LOAD_AFTER_MS = 1500

/** Answers messages: the agent with its model and tools, and the worker that takes runs from the queue. */
export interface Answering {
  models: Models
  listAgents: HostedAgents['list']
  gateway: Omit<GatewayDependencies, 'origins'>
  /** The sandbox that commands run in, or why there is none. */
  sandbox: { name: string | null; why: string | null; isRequired: boolean }
  /** The parts that would be sent with the next message. */
  preview: Agent['preview']
  /** Updates the index after files were restored in this workspace (W9). */
  filesChanged(workspaceId: string): Promise<void>
  active(): number
  stop(): Promise<void>
}

export async function startAnswering(
  config: Config,
  store: Store,
  files: ProjectFiles,
  log: Log,
  gatewayUrl: () => string,
): Promise<Answering> {
  const { ledger, queue, states, results } = store
  const { commandEnvironment: environment, tools: policies, maxModelCalls, maxRuns } = config
  const filesIn = createFilesIn(config, files)
  const status = { path: programPath(config), scratch: join(config.dataDir, 'tmp') }
  const retrieval = createRetrieval({
    store: store.index,
    embedder: embedderOf(config),
    // The part before the slash is the workspace.
    read: async (id, path) =>
      await (await filesIn(id.split('/')[0] ?? id)).files.read(path).then(
        ({ bytes }) => bytes,
        () => null,
      ),
    hashes: async (id, paths) => await (await filesIn(id.split('/')[0] ?? id)).hashes(paths),
    log,
  })
  const found = await sandboxHere(config)
  const toolsIn = createToolsIn(config, found, results, filesIn, retrieval, log)
  assertKnown(policies, await toolsIn(null))
  const demo = needsDemo(config) ? await startDemoModel() : null
  const models = createModels(config, demo?.url ?? null, log)
  const mcp = createMcpTools({
    servers: config.mcpServers,
    root: config.project,
    environment,
    sandbox: confinementOf(config, found, realOf(config.project)),
    log,
  })
  const hostedAgents = createHostedAgents(config, gatewayUrl)
  const worker = randomBytes(8).toString('hex')
  const leaseMs = config.leaseSeconds * 1000
  const recording = { responses: store.responses, clock: systemClock, log }
  const traffic = createHostedTraffic(recording)
  const observed = createObservedSessions({
    ...recording,
    ledger,
    queue,
    states,
    sessions: files.sessions,
    keep: results.keep,
    workspaceId: config.workspaceId,
    worker,
    leaseMs,
  })
  const gateway = createGateway({ access: (key) => traffic.access(key) ?? observed.access(key), log })
  const own = createAgent({
    ledger,
    states,
    responses: store.responses,
    setting: createSettings(config, models),
    clock: systemClock,
    tools: toolsIn,
    retrieval,
    attachments: store.attachments,
    activeFiles: async (id) => {
      const { files, root, isCopy } = await filesIn(id)
      // A copy has no repository of its own.
      return { files, changed: async () => (isCopy ? [] : await changedFiles(root, status)) }
    },
    repository: async () => await describeRepository(config.project),
    mcp,
    policies,
    results,
    rules: store.rules,
    sessions: files.sessions,
    maxModelCalls,
    log,
  })
  let hosted: Promise<HostedAgent> | null = null
  const openHosted = async () => {
    const { createHostedAgent } = await import('../agent/hosted/hosted-agent.ts')
    return createHostedAgent({
      ledger,
      states,
      sessions: files.sessions,
      command: hostedAgents.command,
      root: (id) => realOf(files.folderOf(id ?? config.workspaceId).root),
      tools: toolsIn,
      files: async (id) => (await filesIn(id)).files,
      policies,
      rules: store.rules,
      results,
      attachments: store.attachments,
      traffic,
      clock: systemClock,
      log,
    })
  }
  const agent = createAgents({ ledger, own, hosted: () => (hosted ??= openHosted()), observed })
  const runWorker = createRunWorker({
    ledger,
    queue,
    states,
    agent,
    sessions: files.sessions,
    log,
    worker,
    workspaceIds: files.sessions.workspaceIds,
    leaseMs,
    maxRuns,
  })
  const loading = setTimeout(() => void loadGraph(), LOAD_AFTER_MS)
  return {
    models,
    listAgents: hostedAgents.list,
    sandbox: { name: found.sandbox?.name ?? null, why: found.why, isRequired: config.sandbox === 'required' },
    gateway: { serve: gateway.serve, keep: observed.keep, end: observed.end },
    active: runWorker.active,
    preview: agent.preview,
    filesChanged: async (id) => void (await retrieval.sync(id)),
    async stop() {
      clearTimeout(loading)
      await observed.close()
      await runWorker.stop()
      await (await hosted)?.close()
      await mcp.close()
      await retrieval.close()
      await demo?.close()
    },
  }
}

/** A typo in a denial would deny nothing. Tools of MCP servers are not known yet. */
function assertKnown(policies: Config['tools'], tools: readonly Tool[]): void {
  const names = tools.map((tool) => tool.name)
  const unknown = Object.keys(policies).filter((name) => !names.includes(name) && !name.includes('__'))
  if (unknown.length === 0) return
  throw new ConfigError(`unknown tool ${unknown.join(', ')}; available tools: ${names.join(', ')}`)
}

type AgentContext = Config['agentContexts'][string]

/** The provider, model and instructions for a conversation, by what it has selected. */
function createSettings(config: Config, models: Models): (contexts: Contexts) => Promise<AgentSetting> {
  return async ({ agent, conversation, model: chosen }) => {
    const place = agent === null ? {} : named(config.agentContexts, agent, 'agent context')
    const way =
      conversation === null ? {} : named(config.conversationContexts, conversation, 'conversation context')
    const own = place.baseUrl ? contextServer(place) : null
    const { server: chosenServer, model } = await models.choose(chosen ?? way.model ?? null, own)
    // A context may have another key for the same server.
    const isOtherKey = own === null && place.apiKeyVariable !== undefined
    const server = isOtherKey ? { ...chosenServer, apiKey: keyOf(place) } : chosenServer
    const { provider, keepsResponses, chainRefused } = models.open(server)
    return {
      provider,
      // The demo model gets another port at each start, but stays the same provider.
      providerUrl: server.name === 'demo' ? null : server.baseUrl,
      keepsResponses,
      chainRefused,
      model,
      instructions: way.instructions ?? null,
      temperature: way.temperature ?? null,
      index: place.index ?? null,
    }
  }

  function keyOf({ apiKeyVariable }: AgentContext): string | null {
    return apiKeyVariable ? (config.contextKeys[apiKeyVariable] ?? null) : null
  }

  /** A context's own server. A key is only sent to the server it is for. */
  function contextServer(place: AgentContext): ModelServer {
    const { baseUrl, protocol } = place
    return {
      name: 'custom',
      baseUrl: baseUrl ?? null,
      apiKey: keyOf(place),
      protocol: protocol ?? null,
      defaultModel: null,
      keepsResponses: config.store === true,
    }
  }
}

function named<T>(contexts: Readonly<Record<string, T>>, name: string, what: string): T {
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined
  if (found) return found
  throw new ModelFailure('unknown_context', `This server has no ${what} named ${name}.`, {
    isRetryable: false,
  })
}

/** The folder of each working copy, opened on first use. */
function createFilesIn(config: Config, projectFiles: ProjectFiles) {
  return createOnce(async (workspaceId) => {
    const { root, isCopy, environment, editFile, hashes } = projectFiles.folderOf(
      workspaceId ?? config.workspaceId,
    )
    const files = await openConfinedFolder({ root, dataDir: config.dataDir, editFile })
    return { root, isCopy, files, environment, hashes }
  })
}

/** The tools of each working copy. */
function createToolsIn(
  config: Config,
  found: FoundSandbox,
  results: ToolResults,
  filesIn: ReturnType<typeof createFilesIn>,
  retrieval: Pick<Retrieval, 'note'>,
  log: Log,
) {
  return createOnce(async (workspaceId): Promise<Tool[]> => {
    const { files, environment } = await filesIn(workspaceId)
    const indexes = [null, ...new Set(Object.values(config.agentContexts).flatMap((one) => one.index ?? []))]
    const touched = async (path: string) => {
      for (const index of indexes) {
        await retrieval.note(indexName(workspaceId ?? config.workspaceId, index), files.shown(path))
      }
    }
    return [
      ...fileTools(files).map((tool) => indexing(tool, touched, log)),
      ...walkTools(files),
      runCommandTool(commandOptions(config, found, files.root, environment)),
      ...conversationTools(results),
    ]
  })
}

/** Indexes files that a tool reads or writes, and removes deleted ones from the index (C7). */
function indexing(tool: Tool, touched: (path: string) => Promise<void>, log: Log): Tool {
  return {
    ...tool,
    async run(args, call) {
      const outcome = await tool.run(args, call)
      await Promise.all((tool.effects.paths?.(args) ?? []).map(touched)).catch((error: unknown) => {
        // The tool has taken effect; the index is updated before the next question.
        log.error({ err: error }, 'could not index a file')
      })
      return outcome
    },
  }
}

function embedderOf({ embedder, baseUrl, apiKey }: Config): Embedder | null {
  if (embedder === 'none') return null
  return embedder === 'openai' ? createOpenAiEmbedder({ baseUrl, apiKey }) : createLocalEmbedder()
}

function createOnce<T>(make: (id: string | null) => Promise<T>): (id: string | null) => Promise<T> {
  const made = new Map<string | null, Promise<T>>()
  return (id) => {
    let one = made.get(id)
    if (!one) {
      made.set(id, (one = make(id)))
      // Retry the next time if it could not be opened.
      one.catch(() => made.delete(id))
    }
    return one
  }
}
