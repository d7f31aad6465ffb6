import { createHash } from 'node:crypto'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { homedir, hostname } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { agentPresets } from './agent-presets.ts'
import { defaultUpstreams, type Upstreams } from './agent-routing.ts'
import type { S3Place } from './object-storage/s3.ts'
import {
  type agentContexts,
  type agents,
  type conversationContexts,
  type Given,
  type mcpServers,
  type Setting,
  type SettingName,
  settings,
} from './settings.ts'

export { settings } from './settings.ts'

export interface Config {
  project: string
  host: string
  port: number
  allowedHosts: string[]
  /** The ledger, the checkpoints and the working copies. */
  dataDir: string
  /** The token and the running server's address. Never inside the project: a clone must not be able to supply them. */
  privateDir: string
  /** The user's state folder for all projects. */
  stateDir: string
  databaseUrl: string | null
  /** The object storage for blobs and checkpoint objects; null for the data folder. */
  objectStorage: S3Place | null
  token: string | null
  url: string | null
  model: string | null
  baseUrl: string | null
  protocol: 'responses' | 'chat-completions' | 'anthropic' | null
  apiKey: string | null
  anthropicApiKey: string | null
  geminiApiKey: string | null
  openrouterApiKey: string | null
  ollamaHost: string | null
  workspaceId: string
  /** False for a default; then the id that the data folder was created with takes precedence. */
  hasWorkspaceId: boolean
  tools: Record<string, 'allow' | 'ask' | 'deny'>
  mcpServers: z.infer<typeof mcpServers>
  agents: z.infer<typeof agents>
  /** Hosted agents reach their model servers through the gateway. */
  gateway: boolean
  /** The model servers of the gateway. */
  gatewayUpstreams: Upstreams
  /** The values of the variables that hosted agents may get. */
  agentVariables: Record<string, string>
  /** All environment variables that commands see. */
  commandEnvironment: Record<string, string>
  sandbox: 'auto' | 'required' | 'off'
  commandNetwork: boolean
  /** The user's home folder. */
  home: string
  /** Ignored files that checkpoints keep, and other files that they leave out. */
  include: string[]
  exclude: string[]
  maxFileBytes: number
  watch: boolean
  modelTimeoutSeconds: number
  store: boolean | 'auto'
  embedder: 'local' | 'openai' | 'none'
  conversationContexts: z.infer<typeof conversationContexts>
  agentContexts: z.infer<typeof agentContexts>
  /** Keys of agent contexts, by the variable's name. */
  contextKeys: Record<string, string>
  retentionHours: number
  gcMinutes: number
  maxModelCalls: number
  maxRuns: number
  leaseSeconds: number
  logLevel: 'silent' | 'error' | 'info' | 'debug'
  /** Settings in the file that give the agent or the network more rights: the user must agree to them first. */
  untrusted: { settings: string[]; file: string; sha256: string } | null
  /** The folder of the user's own choices, outside any project. */
  userDir: string
}

export const CONFIG_FILE = 'waymark.config.json'

export class ConfigError extends Error {}

const PACKAGE = fileURLToPath(new URL('..', import.meta.url))

/**
 * The folder where the person is. npm runs the scripts of this package in its own folder and passes the folder where npm was
 * called in INIT_CWD. Every process below npm inherits that variable, so elsewhere it says nothing.
 */
export function callerFolder(
  environment: Readonly<Record<string, string | undefined>> = process.env,
  cwd: string = process.cwd(),
): string {
  return resolve(cwd) === resolve(PACKAGE) ? (environment.INIT_CWD ?? cwd) : cwd
}

/** The only place that reads the environment. `flags` have the names of the settings table. */
export function readConfig(
  flags: Partial<Record<string, unknown>> = {},
  environment: Readonly<Record<string, string | undefined>> = process.env,
  cwd: string = process.cwd(),
): Config {
  const variables = Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => [name, environment[setting.variable] || undefined]),
  )
  const project = resolve(callerFolder(environment, cwd), projectIn(flags) ?? variables.project ?? '.')
  assertFolder(project)
  const file = readFile(project)
  const stateDir = stateFolder(environment)
  const privateDir = projectFolder(stateDir, project)
  const given: Given = {
    ...checked(file.content, (name) => `${name} in ${CONFIG_FILE}`),
    ...checked(variables, (name) => settings[name].variable),
    ...checked(flags, (name) => settings[name].flag?.split(' ')[0] ?? name),
  }
  return {
    project,
    host: given.host ?? '127.0.0.1',
    port: given.port ?? 4747,
    allowedHosts: given.allowedHosts ?? [],
    dataDir: given.dataDir === undefined ? privateDir : resolve(project, given.dataDir),
    privateDir,
    stateDir,
    databaseUrl: given.databaseUrl ?? null,
    objectStorage: s3Place(given, environment),
    token: given.token ?? null,
    url: given.url ?? null,
    model: given.model ?? null,
    baseUrl: given.baseUrl ?? null,
    protocol: given.protocol === undefined || given.protocol === 'auto' ? null : given.protocol,
    apiKey: given.apiKey ?? null,
    anthropicApiKey: given.anthropicApiKey ?? null,
    geminiApiKey: given.geminiApiKey ?? null,
    openrouterApiKey: given.openrouterApiKey ?? null,
    ollamaHost: given.ollamaHost ?? null,
    workspaceId: given.workspaceId ?? defaultWorkspaceId(project),
    hasWorkspaceId: given.workspaceId !== undefined,
    tools: given.tools ?? {},
    mcpServers: given.mcpServers ?? {},
    agents: given.agents ?? {},
    gateway: given.gateway ?? true,
    gatewayUpstreams: {
      openai: given.gatewayOpenaiUrl ?? defaultUpstreams.openai,
      anthropic: given.gatewayAnthropicUrl ?? defaultUpstreams.anthropic,
    },
    agentVariables: agentVariables(environment, given.agents ?? {}),
    commandEnvironment: commandEnvironment(environment, given.commandEnv ?? []),
    sandbox: given.sandbox ?? 'auto',
    commandNetwork: given.commandNetwork ?? false,
    home: environment.HOME || homedir(),
    include: given.include ?? [],
    exclude: given.exclude ?? [],
    maxFileBytes: Math.round((given.maxFileMb ?? 10) * 1024 * 1024),
    watch: given.watch ?? true,
    modelTimeoutSeconds: given.modelTimeoutSeconds ?? 300,
    store: given.store ?? 'auto',
    embedder: given.embedder ?? 'local',
    conversationContexts: given.conversationContexts ?? {},
    agentContexts: given.agentContexts ?? {},
    contextKeys: contextKeys(environment, given.agentContexts ?? {}),
    retentionHours: given.retentionHours ?? 24,
    gcMinutes: given.gcMinutes ?? 60,
    maxModelCalls: given.maxModelCalls ?? 50,
    maxRuns: given.maxRuns ?? 256,
    leaseSeconds: given.leaseSeconds ?? 15,
    logLevel: given.logLevel ?? 'info',
    untrusted: untrustedIn(file),
    userDir: join(environment.XDG_CONFIG_HOME || join(environment.HOME || homedir(), '.config'), 'waymark'),
  }
}

/** The platform's folder for program state. */
function stateFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const home = environment.HOME || homedir()
  const usual = process.platform === 'darwin' ? 'Library/Application Support' : '.local/state'
  return join(environment.XDG_STATE_HOME || join(home, usual), 'waymark')
}

/** The folder of one project, named by the project's real path. */
export function projectFolder(stateDir: string, project: string): string {
  const path = realpathSync(project)
  const key = createHash('sha256').update(path).digest('hex').slice(0, 16)
  return join(stateDir, 'projects', `${plainName(basename(path)) || 'project'}-${key}`)
}

function agentVariables(
  environment: Readonly<Record<string, string | undefined>>,
  given: z.infer<typeof agents>,
): Record<string, string> {
  const all = [...Object.values(agentPresets), ...Object.values(given)]
  const names = all.flatMap(({ variables }) => variables ?? [])
  // Our own secrets are never an agent's.
  const allowed = [...new Set(names)].filter((name) => !name.startsWith('WAYMARK_'))
  return Object.fromEntries(allowed.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])))
}

function contextKeys(
  environment: Readonly<Record<string, string | undefined>>,
  contexts: z.infer<typeof agentContexts>,
): Record<string, string> {
  const names = Object.values(contexts).flatMap((context) => context.apiKeyVariable ?? [])
  return Object.fromEntries(names.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])))
}

function s3Place(
  { blobs, s3Endpoint, s3Region }: Given,
  environment: Readonly<Record<string, string | undefined>>,
): S3Place | null {
  if (blobs === undefined) return null
  const { host: bucket, pathname } = new URL(blobs)
  const path = pathname.replace(/^\/+|\/+$/g, '')
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = environment
  const sessionToken = environment.AWS_SESSION_TOKEN
  return {
    bucket,
    prefix: path === '' ? '' : `${path}/`,
    endpoint: s3Endpoint ?? null,
    region: s3Region ?? environment.AWS_REGION ?? 'us-east-1',
    credentials:
      accessKeyId && secretAccessKey
        ? { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) }
        : null,
  }
}

function projectIn(flags: Partial<Record<string, unknown>>): string | undefined {
  return typeof flags.project === 'string' ? flags.project : undefined
}

function assertFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) throw new ConfigError(`folder not found: ${path}`)
  if (!found.isDirectory()) throw new ConfigError(`${path} is not a folder`)
}

/** `source` names where a setting was given, for error messages. */
function checked(values: Partial<Record<string, unknown>>, source: (name: SettingName) => string): Given {
  const result: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || !Object.hasOwn(settings, key)) continue
    const name = key as SettingName
    const outcome = settings[name].schema.safeParse(value)
    if (!outcome.success) {
      // Never print a secret, even an invalid one.
      const shown = name === 'token' || /key$/i.test(name) ? '' : ` (got ${JSON.stringify(value)})`
      throw new ConfigError(`${source(name)} must ${settings[name].must}${shown}`)
    }
    result[name] = outcome.data
  }
  return result
}

interface SettingsFile {
  path: string
  text: string
  content: Record<string, unknown>
}

function readFile(project: string): SettingsFile {
  const path = join(project, CONFIG_FILE)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { path, text: '', content: {} }
    throw new ConfigError(`can't read ${path}: ${(error as Error).message}`)
  }
  const content = parseObject(text, path)
  const unknown = Object.keys(content).filter((name) => name === 'project' || !Object.hasOwn(settings, name))
  if (unknown.length > 0) throw new ConfigError(`${path} has unknown settings: ${unknown.join(', ')}`)
  const never = Object.keys(content).find((name) => settingOf(name).inFile === 'never')
  if (never) {
    throw new ConfigError(`${path} must not contain ${never}; set ${settingOf(never).variable} instead`)
  }
  return { path, text, content }
}

function settingOf(name: string): Setting {
  return settings[name as SettingName]
}

function untrustedIn({ path, text, content }: SettingsFile): Config['untrusted'] {
  const names = Object.keys(content).filter(
    (name) => settingOf(name).inFile === 'trusted' && !(name === 'tools' && onlyTightens(content.tools)),
  )
  if (names.length === 0) return null
  return { settings: names, file: path, sha256: createHash('sha256').update(text).digest('hex') }
}

/** Asking or denying needs no trust. */
function onlyTightens(tools: unknown): boolean {
  return typeof tools === 'object' && tools !== null && !Object.values(tools).includes('allow')
}

/** Variables of our environment that commands may see. An allowlist, because secrets can have any name. */
const HARMLESS =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TERM|COLORTERM|TZ|TMPDIR|TEMP|TMP|EDITOR|PAGER|CI|NODE_ENV|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|PYENV_ROOT|VIRTUAL_ENV|CONDA_PREFIX|NVM_DIR|XDG_[A-Z_]+)$/
const OURS = /^(WAYMARK_|OPENAI_|ANTHROPIC_|GEMINI_|OPENROUTER_)/

function commandEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  named: readonly string[],
): Record<string, string> {
  const seen: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || OURS.test(name)) continue
    if (HARMLESS.test(name) || named.includes(name)) seen[name] = value
  }
  return seen
}

function defaultWorkspaceId(project: string): string {
  const host = plainName(hostname().split('.')[0] ?? '')
  return [plainName(basename(project)) || 'project', host || 'host'].join('.')
}

function plainName(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9_-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60)
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch (error) {
    const why = error instanceof SyntaxError ? `: ${error.message}` : ''
    throw new ConfigError(`${path} is not a JSON object${why}`)
  }
}
