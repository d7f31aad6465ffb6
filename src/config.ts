import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import * as z from 'zod'

/**
 * Every setting, once: its flag, its variable, its name in waymark.config.json and its meaning. The flag wins over the
 * variable, the variable over the file. docs/settings.md is made from this table.
 */
export const settings = {
  project: {
    flag: '--project <dir>',
    variable: 'WAYMARK_PROJECT',
    about: 'The project. Default: the current folder.',
    must: 'be a folder',
    schema: z.string().min(1),
  },
  host: {
    flag: '--host <address>',
    variable: 'WAYMARK_HOST',
    about: 'The address to listen on. Default: 127.0.0.1.',
    must: 'be an address',
    schema: z.string().min(1),
  },
  port: {
    flag: '--port <number>',
    variable: 'WAYMARK_PORT',
    about: 'The port to listen on; 0 takes a free one. Default: 4747.',
    must: 'be a whole number from 0 to 65535',
    schema: z.coerce.number().int().min(0).max(65_535),
  },
  allowedHosts: {
    flag: '--allowed-hosts <names>',
    variable: 'WAYMARK_ALLOWED_HOSTS',
    about: 'Host names to answer for besides the loopback ones, separated by commas.',
    must: 'be host names separated by commas',
    schema: z.union([z.array(z.string()), z.string().transform((text) => text.split(',').filter(Boolean))]),
  },
  dataDir: {
    flag: '--data-dir <dir>',
    variable: 'WAYMARK_DATA_DIR',
    about: 'Where the ledger, the blobs and the token are kept, seen from the project. Default: .waymark.',
    must: 'be a folder',
    schema: z.string().min(1),
  },
  databaseUrl: {
    flag: '--database-url <url>',
    variable: 'WAYMARK_DATABASE_URL',
    about: 'A Postgres to keep the ledger in, postgres://…. Default: SQLite in the data folder.',
    must: 'be an address that begins with postgres://',
    schema: z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://'),
  },
  token: {
    flag: null,
    variable: 'WAYMARK_TOKEN',
    about: 'The token to use instead of a made one. Never a flag: other users can read those.',
    must: 'be at least 16 characters long',
    schema: z.string().min(16),
  },
  url: {
    flag: '--url <url>',
    variable: 'WAYMARK_URL',
    about: 'The server that commands talk to. Default: the one that runs for the project.',
    must: 'be an address that begins with http:// or https://',
    schema: z.url({ protocol: /^https?$/ }),
  },
  logLevel: {
    flag: '--log-level <level>',
    variable: 'WAYMARK_LOG_LEVEL',
    about: 'How much the server logs: silent, error, info or debug. Default: info.',
    must: 'be silent, error, info or debug',
    schema: z.enum(['silent', 'error', 'info', 'debug']),
  },
} as const satisfies Record<string, Setting>

interface Setting {
  flag: string | null
  variable: string
  about: string
  /** What a value that is refused should have been: it must … */
  must: string
  schema: z.ZodType
}

type SettingName = keyof typeof settings
type Given = { [K in SettingName]?: z.infer<(typeof settings)[K]['schema']> }

export interface Config {
  project: string
  host: string
  port: number
  allowedHosts: string[]
  dataDir: string
  databaseUrl: string | null
  token: string | null
  url: string | null
  logLevel: 'silent' | 'error' | 'info' | 'debug'
}

export const CONFIG_FILE = 'waymark.config.json'

export class ConfigError extends Error {}

/** The only place that reads the environment. `flags` are named as in the table. */
export function readConfig(
  flags: Partial<Record<string, unknown>> = {},
  environment: Readonly<Record<string, string | undefined>> = process.env,
  cwd: string = process.cwd(),
): Config {
  const variables = Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => [name, environment[setting.variable] || undefined]),
  )
  // npm runs scripts in the package's folder and says where it was called.
  const here = environment.INIT_CWD ?? cwd
  const project = resolve(here, projectIn(flags) ?? variables.project ?? '.')
  assertFolder(project)
  const given: Given = {
    ...checked(readFile(project), (name) => `${name} in ${CONFIG_FILE}`),
    ...checked(variables, (name) => settings[name].variable),
    ...checked(flags, (name) => settings[name].flag?.split(' ')[0] ?? name),
  }
  return {
    project,
    host: given.host ?? '127.0.0.1',
    port: given.port ?? 4747,
    allowedHosts: given.allowedHosts ?? [],
    dataDir: resolve(project, given.dataDir ?? '.waymark'),
    databaseUrl: given.databaseUrl ?? null,
    token: given.token ?? null,
    url: given.url ?? null,
    logLevel: given.logLevel ?? 'info',
  }
}

function projectIn(flags: Partial<Record<string, unknown>>): string | undefined {
  return typeof flags.project === 'string' ? flags.project : undefined
}

function assertFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) throw new ConfigError(`there is no folder ${path}`)
  if (!found.isDirectory()) throw new ConfigError(`${path} is not a folder`)
}

/** `source` says where a setting was given, for the message. */
function checked(values: Partial<Record<string, unknown>>, source: (name: SettingName) => string): Given {
  const result: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || !Object.hasOwn(settings, key)) continue
    const name = key as SettingName
    const outcome = settings[name].schema.safeParse(value)
    if (!outcome.success) {
      // A token is a secret even when it is a bad one.
      const shown = name === 'token' ? '' : ` (it is ${JSON.stringify(value)})`
      throw new ConfigError(`${source(name)} must ${settings[name].must}${shown}`)
    }
    result[name] = outcome.data
  }
  return result
}

function readFile(project: string): Record<string, unknown> {
  const path = join(project, CONFIG_FILE)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw new ConfigError(`${path} can not be read: ${(error as Error).message}`)
  }
  const content = parseObject(text, path)
  const unknown = Object.keys(content).filter((name) => name === 'project' || !Object.hasOwn(settings, name))
  if (unknown.length > 0)
    throw new ConfigError(`${path} has settings that are not known: ${unknown.join(', ')}`)
  return content
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch (error) {
    const why = error instanceof SyntaxError ? `: ${error.message}` : ''
    throw new ConfigError(`${path} is not a JSON object${why}`)
  }
}
