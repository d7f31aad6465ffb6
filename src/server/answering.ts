import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type AgentSetting, type Contexts, createAgent, loadGraph } from '../agent/agent.ts'
import { indexName } from '../agent/assembling.ts'
import { createMcpTools } from '../agent/mcp.ts'
import { createProvider, type Provider } from '../agent/provider/provider.ts'
import { openConfinedFolder } from '../agent/tools/confined-folder.ts'
import type { ToolResults } from '../agent/tools/conversation.ts'
import { conversationTools } from '../agent/tools/conversation.ts'
import { fileTools } from '../agent/tools/files.ts'
import { runCommandTool } from '../agent/tools/run-command.ts'
import type { Tool } from '../agent/tools/tool.ts'
import { walkTools } from '../agent/tools/walk.ts'
import { type Config, ConfigError } from '../config.ts'
import { type Agent, ModelFailure } from '../core/agent.ts'
import { systemClock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Embedder } from '../core/retrieval.ts'
import { DEMO_MODEL, startDemoModel } from '../demo-model/server.ts'
import { changedFiles } from '../git/status.ts'
import { describeRepository } from '../git/user-repository.ts'
import { createLocalEmbedder, createOpenAiEmbedder } from '../retrieval/embedders.ts'
import { createRetrieval, type Retrieval } from '../retrieval/retrieval.ts'
import { realOf } from '../sandbox/paths.ts'
import { type FoundSandbox, findSandbox, isTooWide, type Place } from '../sandbox/sandbox.ts'
import { tryOut } from '../sandbox/start.ts'
import { createRunWorker } from '../workers/run-worker.ts'
import { type ProjectFiles, programPath } from './project-files.ts'
import type { Store } from './store.ts'

const DEFAULT_MODEL = 'gpt-5.5'
/** Answer the first requests before loading what they do not need. */
const LOAD_AFTER_MS = 1500

export interface ModelNote {
  name: string
  /** Null for the provider's own address. */
  url: string | null
  isDemo: boolean
}

/** What answers messages: the agent with its model and tools, and the worker that takes runs from the queue. */
export interface Answering {
  model: ModelNote
  /** The sandbox that commands run in, or why there is none. */
  sandbox: { name: string | null; why: string | null; isRequired: boolean }
  /** What the model would be told next. */
  preview: Agent['preview']
  /** Files were put back in this workspace: the index follows (W9). */
  filesChanged(workspaceId: string): Promise<void>
  active(): number
  stop(): Promise<void>
}

export async function startAnswering(
  config: Config,
  store: Store,
  copy: ProjectFiles,
  log: Log,
): Promise<Answering> {
  const { ledger, queue, states, results } = store
  const { commandEnvironment: environment, tools: policies, maxModelCalls, maxRuns } = config
  const filesIn = createFilesIn(config, copy)
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
  // Without a key and an address there is no provider to talk to.
  const demo = config.apiKey === null && config.baseUrl === null ? await startDemoModel() : null
  const model = config.model ?? (demo ? DEMO_MODEL : DEFAULT_MODEL)
  const mcp = createMcpTools({
    servers: config.mcpServers,
    root: config.project,
    environment,
    sandbox: confinementOf(config, found, realOf(config.project)),
    log,
  })
  const agent = createAgent({
    ledger,
    states,
    responses: store.responses,
    setting: createSettings(config, { model, baseUrl: demo?.url ?? config.baseUrl, isDemo: demo !== null }),
    isKept: config.store,
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
    maxModelCalls,
    log,
  })
  const worker = createRunWorker({
    ledger,
    queue,
    states,
    agent,
    sessions: copy.sessions,
    log,
    worker: randomBytes(8).toString('hex'),
    workspaceIds: copy.sessions.workspaceIds,
    leaseMs: config.leaseSeconds * 1000,
    maxRuns,
  })
  const loading = setTimeout(() => void loadGraph(), LOAD_AFTER_MS)
  return {
    model: { name: model, url: demo?.url ?? config.baseUrl, isDemo: demo !== null },
    sandbox: { name: found.sandbox?.name ?? null, why: found.why, isRequired: config.sandbox === 'required' },
    active: worker.active,
    preview: agent.preview,
    filesChanged: async (id) => void (await retrieval.sync(id)),
    async stop() {
      clearTimeout(loading)
      await worker.stop()
      await mcp.close()
      await retrieval.close()
      await demo?.close()
    },
  }
}

/** A typing mistake in a denial would deny nothing. What MCP servers bring is not known yet. */
function assertKnown(policies: Config['tools'], tools: readonly Tool[]): void {
  const names = tools.map((tool) => tool.name)
  const unknown = Object.keys(policies).filter((name) => !names.includes(name) && !name.includes('__'))
  if (unknown.length === 0) return
  throw new ConfigError(`there is no tool ${unknown.join(', ')}; there are ${names.join(', ')}`)
}

/** Who answers a conversation, and how, by the contexts that it has chosen. */
function createSettings(
  config: Config,
  usual: { model: string; baseUrl: string | null; isDemo: boolean },
): (contexts: Contexts) => AgentSetting {
  const providers = new Map<string, Provider>()
  const limits = { silenceMs: config.modelTimeoutSeconds * 1000 }
  const providerOf = (baseUrl: string | null, apiKey: string | null): Provider => {
    const key = JSON.stringify([baseUrl, apiKey])
    let provider = providers.get(key)
    if (!provider) providers.set(key, (provider = createProvider({ baseUrl, apiKey, limits })))
    return provider
  }
  return ({ agent, conversation }) => {
    const place = agent === null ? {} : named(config.agentContexts, agent, 'agent context')
    const way =
      conversation === null ? {} : named(config.conversationContexts, conversation, 'conversation context')
    const apiKey = place.apiKeyVariable ? (config.contextKeys[place.apiKeyVariable] ?? null) : config.apiKey
    const baseUrl = place.baseUrl ?? usual.baseUrl
    return {
      // A key goes only where it was meant to go.
      provider: providerOf(baseUrl, place.baseUrl && !place.apiKeyVariable ? null : apiKey),
      // The demo model has another port each time, and is the same.
      providerUrl: place.baseUrl ?? (usual.isDemo ? null : usual.baseUrl),
      model: way.model ?? usual.model,
      instructions: way.instructions ?? null,
      temperature: way.temperature ?? null,
      index: place.index ?? null,
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

/** Each working copy's folder, opened when it is first needed. */
function createFilesIn(config: Config, copy: ProjectFiles) {
  return createOnce(async (workspaceId) => {
    const { root, isCopy, environment, editFile, hashes } = copy.folderOf(workspaceId ?? config.workspaceId)
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
      ...commandTools(config, found, files.root, environment),
      ...conversationTools(results),
    ]
  })
}

/** Where commands need a sandbox and there is none, the tool says so. */
function commandTools(
  config: Config,
  found: FoundSandbox,
  root: string,
  environment: Readonly<Record<string, string>>,
): Tool[] {
  const sandbox = confinementOf(config, found, root)
  const isRefused = config.sandbox === 'required' && !sandbox
  return [
    runCommandTool({
      refusal: isRefused
        ? `commands need a sandbox here (--sandbox required), and there is none: ${found.why ?? ''}`
        : null,
      root,
      environment: { ...config.commandEnvironment, ...environment },
      sandbox,
      network: config.commandNetwork,
    }),
  ]
}

/** The sandbox that commands run in, or why there is none. */
export async function sandboxHere(config: Config): Promise<FoundSandbox> {
  if (config.sandbox === 'off') return { sandbox: null, why: 'it is switched off' }
  const found = await findSandbox({ path: programPath(config), tryOut })
  const place = placeIn(config, realOf(config.project))
  return found.sandbox && isTooWide(place)
    ? { sandbox: null, why: 'the project holds your home folder' }
    : found
}

/** How programs run in this folder; null where they can't be confined. */
function confinementOf(config: Config, { sandbox }: FoundSandbox, workspace: string) {
  const place = placeIn(config, workspace)
  return sandbox && !isTooWide(place) ? { sandbox, place } : null
}

/** Null where there is none that could be replaced: a service may have `/` for one. */
function homeIn(home: string): string | null {
  const real = realOf(home)
  return real !== '/' && existsSync(real) ? real : null
}

function placeIn(config: Config, workspace: string): Place {
  return {
    workspace,
    home: homeIn(config.home),
    privateHome: join(realOf(config.dataDir), 'home'),
    hidden: [config.dataDir, config.stateDir, config.userDir].map(realOf),
    path: config.commandEnvironment.PATH ?? '',
  }
}

/** What a tool reads or writes is indexed, and what it deletes is not any more (C7). */
function indexing(tool: Tool, touched: (path: string) => Promise<void>, log: Log): Tool {
  return {
    ...tool,
    async run(args, call) {
      const outcome = await tool.run(args, call)
      await touched((args as { path: string }).path).catch((error: unknown) => {
        // What the tool has done is done; the index is brought up to date before the next question.
        log.error({ err: error }, 'a file could not be indexed')
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
      // One that could not be opened is tried again.
      one.catch(() => made.delete(id))
    }
    return one
  }
}
