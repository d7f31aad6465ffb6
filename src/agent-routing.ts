import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * How to send an agent's model traffic through the gateway: the model servers that it uses by its own configuration, and the
 * variables and arguments that replace their addresses. The agent keeps its own login.
 */
export interface AgentRouting {
  /** Origins by the name that the gateway's path uses. */
  upstreams: Record<string, string>
  /** `address` is the gateway's address for an upstream. */
  through(address: (upstream: string) => string): { environment: Record<string, string>; args: string[] }
}

type Environment = Readonly<Record<string, string | undefined>>

export interface Upstreams {
  openai: string
  anthropic: string
}

export const defaultUpstreams: Upstreams = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
}
const CHATGPT = 'https://chatgpt.com/backend-api/codex'

/** `program` is a name or a path; `environment` is the one that the agent would get. */
export function routingOf(
  program: string,
  environment: Environment,
  defaults = defaultUpstreams,
): AgentRouting {
  const name = program.split(/[\\/]/).at(-1) ?? program
  const openai = environment.OPENAI_BASE_URL || defaults.openai
  const anthropic = environment.ANTHROPIC_BASE_URL || defaults.anthropic
  if (name.startsWith('codex')) return codexRouting(environment, openai)
  if (name.startsWith('opencode')) return opencodeRouting(environment, { openai, anthropic })
  return routing({ openai, anthropic }, (url) => ({
    environment: { OPENAI_BASE_URL: url('openai'), ANTHROPIC_BASE_URL: url('anthropic') },
    args: [],
  }))
}

/** Codex: its own setting for the OpenAI server, or the server of the provider that its configuration selects. */
function codexRouting(environment: Environment, openai: string): AgentRouting {
  const folder = environment.CODEX_HOME || join(environment.HOME ?? '', '.codex')
  const config = read(join(folder, 'config.toml'))
  const provider = /^model_provider\s*=\s*"([\w-]+)"/m.exec(config)?.[1] ?? 'openai'
  if (provider === 'openai') {
    const own = /^openai_base_url\s*=\s*"([^"]+)"/m.exec(config)?.[1]
    const isChatGpt = !environment.OPENAI_API_KEY && /"tokens"\s*:\s*\{/.test(read(join(folder, 'auth.json')))
    return routing({ openai: own ?? (isChatGpt ? CHATGPT : openai) }, (url) =>
      codexConfig(environment, { openai_base_url: url('openai') }),
    )
  }
  const section = new RegExp(`^\\[model_providers\\.${provider}\\]([^[]*)`, 'm').exec(config)?.[1] ?? ''
  const base = /^base_url\s*=\s*"([^"]+)"/m.exec(section)?.[1]
  if (base === undefined) return routing({}, () => ({ environment: {}, args: [] }))
  return routing({ [provider]: base }, (url) =>
    codexConfig(environment, { [`model_providers.${provider}.base_url`]: url(provider) }),
  )
}

/** Codex takes settings as arguments; its adapter for ACP takes them from a variable. */
function codexConfig(environment: Environment, settings: Record<string, string>) {
  const given = object(environment.CODEX_CONFIG ?? '')
  const args = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${JSON.stringify(value)}`])
  return { environment: { CODEX_CONFIG: JSON.stringify({ ...given, ...settings }) }, args }
}

/** opencode: every provider whose address its configuration names, and the two best known. */
function opencodeRouting(environment: Environment, known: Upstreams): AgentRouting {
  const home = environment.XDG_CONFIG_HOME || join(environment.HOME ?? '', '.config')
  const content = object(environment.OPENCODE_CONFIG_CONTENT ?? '')
  const servers: Record<string, string> = { openai: known.openai, anthropic: `${origin(known.anthropic)}/v1` }
  for (const config of [object(read(join(home, 'opencode/opencode.json'))), content]) {
    for (const [id, provider] of Object.entries(field(config, 'provider'))) {
      const { baseURL } = field(provider, 'options')
      if (typeof baseURL === 'string' && /^[\w-]{1,40}$/.test(id)) servers[id] = baseURL
    }
  }
  return routing(servers, (url) => {
    const providers = field(content, 'provider')
    const routed = Object.keys(servers).map((id) => {
      const own = field(providers, id)
      return [id, { ...own, options: { ...field(own, 'options'), baseURL: url(id) } }]
    })
    const provider = { ...providers, ...Object.fromEntries(routed) }
    return { environment: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ ...content, provider }) }, args: [] }
  })
}

/** An agent is given the gateway's address with the path of its own server, so that every path stays as it was. */
function routing(
  servers: Record<string, string>,
  settings: (url: (name: string) => string) => { environment: Record<string, string>; args: string[] },
): AgentRouting {
  const usable = Object.entries(servers).filter(([, url]) => /^https?:/.test(url) && URL.canParse(url))
  const paths = Object.fromEntries(
    usable.map(([name, url]) => [name, new URL(url).pathname.replace(/\/$/, '')]),
  )
  return {
    upstreams: Object.fromEntries(usable.map(([name, url]) => [name, origin(url)])),
    through: (address) => settings((name) => `${address(name)}${paths[name] ?? ''}`),
  }
}

function origin(url: string): string {
  return new URL(url).origin
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** An empty object for anything that is not an object in JSON. */
function object(text: string): Record<string, unknown> {
  try {
    return field({ value: JSON.parse(text) as unknown }, 'value')
  } catch {
    return {}
  }
}

function field(value: unknown, name: string): Record<string, unknown> {
  const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : null
  return typeof found === 'object' && found !== null && !Array.isArray(found)
    ? (found as Record<string, unknown>)
    : {}
}
