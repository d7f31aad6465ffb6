import { readFileSync } from 'node:fs'
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
    about: 'The project to serve. Default: the current folder.',
    schema: z.string().min(1),
  },
  host: {
    flag: '--host <address>',
    variable: 'WAYMARK_HOST',
    about: 'The address to listen on. Default: 127.0.0.1.',
    schema: z.string().min(1),
  },
  port: {
    flag: '--port <number>',
    variable: 'WAYMARK_PORT',
    about: 'The port to listen on; 0 takes a free one. Default: 4747.',
    schema: z.coerce.number().int().min(0).max(65_535),
  },
  allowedHosts: {
    flag: '--allowed-hosts <names>',
    variable: 'WAYMARK_ALLOWED_HOSTS',
    about: 'Host names to answer for besides the loopback ones, separated by commas.',
    schema: z.union([z.array(z.string()), z.string().transform((text) => text.split(',').filter(Boolean))]),
  },
  dataDir: {
    flag: '--data-dir <dir>',
    variable: 'WAYMARK_DATA_DIR',
    about: 'Where the ledger, the blobs and the token are kept. Default: .waymark in the project.',
    schema: z.string().min(1),
  },
  databaseUrl: {
    flag: '--database-url <url>',
    variable: 'WAYMARK_DATABASE_URL',
    about: 'A Postgres to keep the ledger in, postgres://…. Default: SQLite in the data folder.',
    schema: z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://'),
  },
  token: {
    flag: null,
    variable: 'WAYMARK_TOKEN',
    about: 'The token to use instead of a made one. Never a flag: other users can read those.',
    schema: z.string().min(16),
  },
  url: {
    flag: '--url <url>',
    variable: 'WAYMARK_URL',
    about: 'The server that commands talk to. Default: the one that runs for the project.',
    schema: z.url({ protocol: /^https?$/ }),
  },
  logLevel: {
    flag: '--log-level <level>',
    variable: 'WAYMARK_LOG_LEVEL',
    about: 'How much the server logs: silent, error, info or debug. Default: info.',
    schema: z.enum(['silent', 'error', 'info', 'debug']),
  },
} as const satisfies Record<string, Setting>

interface Setting {
  flag: string | null
  variable: string
  about: string
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
  const given: Given = {
    ...checked(readFile(project), CONFIG_FILE),
    ...checked(variables, 'the environment'),
    ...checked(flags, 'the command line'),
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

function checked(values: Partial<Record<string, unknown>>, where: string): Given {
  const result: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || !Object.hasOwn(settings, name)) continue
    const outcome = settings[name as SettingName].schema.safeParse(value)
    if (!outcome.success) {
      throw new ConfigError(`${name} in ${where}: ${outcome.error.issues[0]?.message ?? 'not valid'}`)
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
  const unknown = Object.keys(content).filter((name) => !Object.hasOwn(settings, name))
  if (unknown.length > 0)
    throw new ConfigError(`${path} has settings that are not known: ${unknown.join(', ')}`)
  return content
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch {
    throw new ConfigError(`${path} is not a JSON object`)
  }
}
