import type { Config } from '../config.ts'
import { ModelFailure } from '../core/agent.ts'
import type { Log } from '../core/log.ts'
import {
  type ChosenModel,
  findModel,
  fullName,
  listModels,
  type ModelServer,
  modelServers,
  type OpenServer,
  openServer,
  type ServerModels,
} from './model-servers.ts'

/** The models that conversations can choose from. */
export interface Models {
  /** The default: what the page and the start message name. */
  note(): ModelNote
  /** What is wrong with the default model, once its server has been asked. */
  checked: Promise<string | null>
  /** The server and model for a conversation's choice; null for the default. `own` replaces the default server. */
  choose(name: string | null, own: ModelServer | null): Promise<ChosenModel>
  open(server: ModelServer): OpenServer
  /** Every server with its models. Asks a server again when its list is older than a minute. */
  list(): Promise<ListedServer[]>
}

export interface ModelNote {
  /** `provider/model`. */
  name: string
  /** Null for the provider's default URL. */
  url: string | null
  isDemo: boolean
  /** What is wrong with it, in one sentence; null if nothing is, or before the server has answered. */
  problem: string | null
}

export interface ListedServer {
  name: string
  url: string | null
  models: string[]
  problem: string | null
}

const LIST_TTL_MS = 60_000

export function createModels(config: Config, demoUrl: string | null, log: Log): Models {
  const servers = modelServers(config, demoUrl)
  const silenceMs = config.modelTimeoutSeconds * 1000
  const open = new Map<string, OpenServer>()
  const lists = new Map<ModelServer, { at: number; list: Promise<ServerModels> }>()
  const [usual] = servers
  if (!usual) throw new Error('there is no model server')
  let problem: string | null = null
  /** The first model of a server that has no default of its own. */
  let firstListed: string | null = null
  // In the background: the server starts without waiting for its model.
  const checked = check()

  function listOf(server: ModelServer): Promise<ServerModels> {
    const known = lists.get(server)
    if (known && Date.now() - known.at < LIST_TTL_MS) return known.list
    const list = listModels(server)
    lists.set(server, { at: Date.now(), list })
    // Ask again the next time if it did not answer.
    void list.then(({ problem: found }) => found !== null && lists.delete(server))
    return list
  }

  /** The configured model, or why it can't be used: its provider may have no key. */
  function configured(): { chosen: ChosenModel | null; refusal: string | null } {
    try {
      return { chosen: config.model === null ? null : findModel(servers, config.model), refusal: null }
    } catch (error) {
      if (!(error instanceof ModelFailure)) throw error
      return { chosen: null, refusal: error.message }
    }
  }

  async function check(): Promise<string | null> {
    if (!usual) return null
    const { chosen, refusal } = configured()
    if (refusal !== null) return (problem = refusal)
    const server = chosen?.server ?? usual
    const { models, problem: found } = await listOf(server)
    if (server === usual) firstListed = models[0] ?? null
    const model = chosen?.model ?? usual.defaultModel
    const isUnknown = found === null && models.length > 0 && model !== null && !models.includes(model)
    problem =
      found ??
      (isUnknown
        ? `${server.name} has no model named ${model}. Available: ${models.slice(0, 5).join(', ')}${models.length > 5 ? ' …' : ''}`
        : null)
    if (problem !== null) log.info({ provider: server.name }, problem)
    return problem
  }

  /** A local server often has one model, which needs no name. */
  async function defaultOf(server: ModelServer): Promise<string> {
    if (server.defaultModel !== null) return server.defaultModel
    const { models, problem: found } = await listOf(server)
    const [first] = models
    if (first !== undefined) return first
    const advice = `${server.baseUrl} lists no models. Name one with --model, or choose one in the page.`
    throw new ModelFailure('no_model', found ?? advice, { isRetryable: found !== null })
  }

  return {
    checked,
    note() {
      const { chosen } = configured()
      const server = chosen?.server ?? usual
      const model = chosen?.model ?? usual.defaultModel ?? firstListed
      const name = model === null ? usual.name : fullName({ server, model })
      return { name, url: server.baseUrl, isDemo: server.name === 'demo', problem }
    },
    async choose(name, own) {
      const wanted = name ?? config.model
      if (own) return { server: own, model: wanted ?? (await defaultOf(own)) }
      return wanted === null ? { server: usual, model: await defaultOf(usual) } : findModel(servers, wanted)
    },
    open(server) {
      const key = JSON.stringify([server.name, server.baseUrl, server.apiKey, server.protocol])
      let one = open.get(key)
      if (!one) open.set(key, (one = openServer(server, silenceMs)))
      return one
    },
    async list() {
      return await Promise.all(
        servers.map(async (server) => ({
          name: server.name,
          url: server.baseUrl,
          ...(await listOf(server)),
        })),
      )
    },
  }
}
