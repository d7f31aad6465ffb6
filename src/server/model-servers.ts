import type { ProtocolName } from '../agent/provider/protocol.ts'
import { createProvider, type Provider } from '../agent/provider/provider.ts'
import type { Config } from '../config.ts'
import { ModelFailure } from '../core/agent.ts'
import { DEMO_MODEL } from '../demo-model/server.ts'
import { createBoundedFetch } from '../outbound/bounded-fetch.ts'

/** A server that a model can be chosen from. */
export interface ModelServer {
  /** The part before the slash in `provider/model`. */
  name: ProviderName
  /** Null for the SDK's default. */
  baseUrl: string | null
  apiKey: string | null
  /** Null to find out with the first request. */
  protocol: ProtocolName | null
  /** Null if the server can't be asked for its default: a model must be named. */
  defaultModel: string | null
  keepsResponses: boolean
}

export type ProviderName = 'openai' | 'anthropic' | 'gemini' | 'openrouter' | 'ollama' | 'custom' | 'demo'

interface KnownProvider {
  baseUrl: string | null
  protocol: ProtocolName
  variable: string
  defaultModel: string
}

/** Providers that a key in the environment makes available, in order of preference. */
const known: Record<'openai' | 'anthropic' | 'gemini' | 'openrouter', KnownProvider> = {
  openai: { baseUrl: null, protocol: 'responses', variable: 'OPENAI_API_KEY', defaultModel: 'gpt-5.5' },
  anthropic: {
    baseUrl: 'https://api.anthropic.com',
    protocol: 'anthropic',
    variable: 'ANTHROPIC_API_KEY',
    defaultModel: 'claude-sonnet-4-5',
  },
  gemini: {
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    protocol: 'chat-completions',
    variable: 'GEMINI_API_KEY',
    defaultModel: 'gemini-2.5-pro',
  },
  openrouter: {
    baseUrl: 'https://openrouter.ai/api/v1',
    protocol: 'chat-completions',
    variable: 'OPENROUTER_API_KEY',
    defaultModel: 'openrouter/auto',
  },
}

const OPENAI_HOST = 'api.openai.com'

/** The servers that this configuration can reach, the default one first. Never empty: without any, the demo model. */
export function modelServers(config: Config, demoUrl: string | null): ModelServer[] {
  const keys = {
    openai: config.baseUrl === null ? config.apiKey : null,
    anthropic: config.anthropicApiKey,
    gemini: config.geminiApiKey,
    openrouter: config.openrouterApiKey,
  }
  const stores = (isUsual: boolean) => (config.store === 'auto' ? isUsual : config.store)
  const servers: ModelServer[] = []
  if (config.baseUrl !== null) {
    servers.push({
      name: 'custom',
      baseUrl: config.baseUrl,
      apiKey: config.apiKey,
      protocol: config.protocol,
      defaultModel: null,
      keepsResponses: stores(new URL(config.baseUrl).host === OPENAI_HOST),
    })
  }
  for (const name of Object.keys(known) as (keyof typeof known)[]) {
    const apiKey = keys[name]
    if (apiKey === null) continue
    const { baseUrl, protocol, defaultModel } = known[name]
    servers.push({ name, baseUrl, apiKey, protocol, defaultModel, keepsResponses: stores(name === 'openai') })
  }
  if (config.ollamaHost !== null) servers.push(ollama(config.ollamaHost))
  if (servers.length === 0 && demoUrl !== null) servers.push(demo(demoUrl, stores(true)))
  return servers
}

/** True if no server is configured, so that the demo model answers. */
export function needsDemo(config: Config): boolean {
  return modelServers(config, null).length === 0
}

function ollama(host: string): ModelServer {
  const url = new URL(host)
  // Ollama's own default.
  if (url.port === '' && url.protocol === 'http:') url.port = '11434'
  return {
    name: 'ollama',
    baseUrl: `${url.origin}/v1`,
    apiKey: null,
    protocol: 'chat-completions',
    defaultModel: null,
    keepsResponses: false,
  }
}

function demo(baseUrl: string, keepsResponses: boolean): ModelServer {
  return {
    name: 'demo',
    baseUrl,
    apiKey: null,
    protocol: 'responses',
    defaultModel: DEMO_MODEL,
    keepsResponses,
  }
}

export interface ChosenModel {
  server: ModelServer
  model: string
}

/**
 * Finds the server of a model's name. A first part that is a provider names it; otherwise the whole name belongs to the
 * default provider, since names may contain slashes.
 */
export function findModel(servers: readonly ModelServer[], name: string): ChosenModel {
  const [usual] = servers
  if (!usual) throw new Error('there is no model server')
  const [first = '', ...rest] = name.split('/')
  const named = servers.find((server) => server.name === first)
  if (named && rest.length > 0) return { server: named, model: rest.join('/') }
  const isMissing = rest.length > 0 && usual.name !== 'custom' && usual.name !== 'openrouter'
  if (isMissing && (Object.hasOwn(known, first) || first === 'ollama')) {
    const variable = first === 'ollama' ? 'OLLAMA_HOST' : known[first as keyof typeof known].variable
    throw new ModelFailure('unknown_model', `Set ${variable} and restart the server to use ${name}.`, {
      isRetryable: false,
    })
  }
  return { server: usual, model: name }
}

/** The name by which people choose a model. */
export function fullName({ server, model }: ChosenModel): string {
  return server.name === 'demo' ? model : `${server.name}/${model}`
}

/** How long a server may take to list its models. */
const LIST_MS = 10_000
const MOST_MODELS = 1000

export type ServerModels = { models: string[]; problem: null } | { models: []; problem: string }

/** Asks a server for its models. Says in one sentence what is wrong if it doesn't answer. */
export async function listModels(server: ModelServer): Promise<ServerModels> {
  const none = (problem: string) => ({ models: [] as [], problem })
  const base = (server.baseUrl ?? `https://${OPENAI_HOST}/v1`).replace(/\/$/, '')
  const path = server.protocol === 'anthropic' ? `${base.replace(/\/v1$/, '')}/v1/models` : `${base}/models`
  const request = createBoundedFetch({ limits: { silenceMs: LIST_MS, totalBytes: 8 * 1024 * 1024 } })
  let answer: Response
  try {
    answer = await request(path, { headers: headersFor(server) })
  } catch (error) {
    const advice = Object.hasOwn(known, server.name)
      ? 'Check your network.'
      : 'Start it, or check the base URL.'
    return none(`No server answers at ${base} (${causeOf(error)}). ${advice}`)
  }
  if (answer.status === 401 || answer.status === 403) {
    return none(`${base} refused the API key (${answer.status}). Check the key.`)
  }
  if (!answer.ok) return none(`${base} can't list its models (${answer.status}). Check the base URL.`)
  try {
    const { data } = (await answer.json()) as { data?: { id?: unknown }[] }
    const ids = (data ?? []).flatMap(({ id }) => (typeof id === 'string' && id.length <= 200 ? id : []))
    // Gemini prefixes its names.
    const models = ids.map((id) => id.replace(/^models\//, '')).slice(0, MOST_MODELS)
    return { models, problem: null }
  } catch {
    return none(`${base} sent a list of models that can't be read. Check the base URL.`)
  }
}

function headersFor({ protocol, apiKey }: ModelServer): Record<string, string> {
  if (protocol === 'anthropic') return { 'x-api-key': apiKey ?? '', 'anthropic-version': '2023-06-01' }
  return apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
}

function causeOf(error: unknown): string {
  const { cause, message } = error as Error
  return cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code || message : message
}

/** After this many refusals a server counts as one that doesn't store responses. */
const MOST_REFUSALS = 2

/** A provider, and whether it really keeps what it is asked to store. */
export interface OpenServer {
  provider: Provider
  keepsResponses(): boolean
  chainRefused(): void
}

export function openServer(server: ModelServer, silenceMs: number): OpenServer {
  const { baseUrl, apiKey, protocol, keepsResponses } = server
  const provider = createProvider({ baseUrl, apiKey, protocol, limits: { silenceMs } })
  let refusals = 0
  return {
    provider,
    keepsResponses: () => keepsResponses && provider.protocol().hasChains && refusals < MOST_REFUSALS,
    chainRefused: () => void refusals++,
  }
}
