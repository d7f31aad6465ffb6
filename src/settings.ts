import * as z from 'zod'

const toolPolicy = z.enum(['allow', 'ask', 'deny'])

const list = z.union([
  z.array(z.string().min(1)),
  z.string().transform((text) => text.split(',').filter(Boolean)),
])

export const mcpServers = z.record(
  // Two underscores divide the server's name from the tool's.
  z.string().regex(/^(?!.*__)[A-Za-z0-9_-]{1,40}$/),
  z.union([
    z.strictObject({
      command: z.string().min(1),
      args: z.array(z.string()).optional(),
      env: z.record(z.string(), z.string()).optional(),
      network: z.boolean().optional(),
      sandbox: z.boolean().optional(),
    }),
    z.strictObject({
      url: z.url({ protocol: /^https?$/ }),
      headers: z.record(z.string(), z.string()).optional(),
    }),
  ]),
)

export const conversationContexts = z.record(
  z.string().min(1).max(200),
  z.strictObject({
    instructions: z.string().min(1).optional(),
    model: z.string().min(1).optional(),
    temperature: z.number().min(0).max(2).optional(),
  }),
)

export const agentContexts = z.record(
  z.string().min(1).max(200),
  z.strictObject({
    baseUrl: z.url({ protocol: /^https?$/ }).optional(),
    apiKeyVariable: z.string().min(1).optional(),
    index: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,100}$/)
      .optional(),
  }),
)

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
    inFile: 'trusted',
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
    inFile: 'trusted',
  },
  dataDir: {
    flag: '--data-dir <dir>',
    variable: 'WAYMARK_DATA_DIR',
    about:
      'Where the ledger, the checkpoints and the working copies are kept, relative to the project. Default: a folder of ' +
      "this project's own in ~/.local/state/waymark/projects.",
    must: 'be a folder',
    schema: z.string().min(1),
    inFile: 'trusted',
  },
  databaseUrl: {
    flag: '--database-url <url>',
    variable: 'WAYMARK_DATABASE_URL',
    about: 'A Postgres to keep the ledger in, postgres://…. Default: SQLite in the data folder.',
    must: 'be an address that begins with postgres://',
    schema: z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://'),
    inFile: 'trusted',
  },
  blobs: {
    flag: '--blobs <url>',
    variable: 'WAYMARK_BLOBS',
    about:
      'An S3-compatible store for blobs and checkpoint objects, s3://bucket/prefix, so that processes need no shared ' +
      'folder. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or as the AWS tools find them. Default: the data folder.',
    must: 'be an address like s3://bucket/prefix',
    schema: z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[A-Za-z0-9!_.*'()/-]*)?$/),
    inFile: 'trusted',
  },
  s3Endpoint: {
    flag: '--s3-endpoint <url>',
    variable: 'WAYMARK_S3_ENDPOINT',
    about: 'The address of the S3-compatible server. Default: AWS.',
    must: 'be an address that begins with http:// or https://',
    schema: z.url({ protocol: /^https?$/ }),
    inFile: 'trusted',
  },
  s3Region: {
    flag: '--s3-region <name>',
    variable: 'WAYMARK_S3_REGION',
    about: 'The region of the bucket. Default: AWS_REGION, or us-east-1.',
    must: 'be the name of a region',
    schema: z.string().regex(/^[a-z0-9-]{1,60}$/),
    inFile: 'trusted',
  },
  token: {
    flag: null,
    variable: 'WAYMARK_TOKEN',
    about: 'The token to use instead of a made one. Never a flag: other users can read those.',
    must: 'be at least 16 characters long',
    schema: z.string().min(16),
    inFile: 'trusted',
  },
  url: {
    flag: '--url <url>',
    variable: 'WAYMARK_URL',
    about: 'The server that commands talk to. Default: the one that runs for the project.',
    must: 'be an address that begins with http:// or https://',
    schema: z.url({ protocol: /^https?$/ }),
    inFile: 'trusted',
  },
  model: {
    flag: '--model <name>',
    variable: 'WAYMARK_MODEL',
    about: 'The model. Default: gpt-5.5, or the demo model when there is no key and no base URL.',
    must: 'be the name of a model',
    schema: z.string().min(1),
  },
  baseUrl: {
    flag: '--base-url <url>',
    variable: 'OPENAI_BASE_URL',
    about:
      'Where the Responses API is: Ollama, vLLM and LM Studio have one too. Not in the file: the key goes there.',
    must: 'be an address that begins with http:// or https://, without a user or password',
    schema: z.url({ protocol: /^https?$/ }).refine((url) => !new URL(url).username && !new URL(url).password),
    inFile: 'never',
  },
  apiKey: {
    flag: null,
    variable: 'OPENAI_API_KEY',
    about: 'The key for it. From the environment only.',
    must: 'be a key',
    schema: z.string().min(1),
    inFile: 'never',
  },
  modelTimeoutSeconds: {
    flag: '--model-timeout-seconds <number>',
    variable: 'WAYMARK_MODEL_TIMEOUT_SECONDS',
    about: "How long the model's server may send nothing before the request counts as failed. Default: 300.",
    must: 'be a number from 1 to 3600',
    schema: z.coerce.number().min(1).max(3600),
  },
  store: {
    flag: '--store <yes-or-no>',
    variable: 'WAYMARK_STORE',
    about:
      'Whether the provider keeps responses, so that only what is new is sent. Servers that keep none need no. Default: yes.',
    must: 'be yes or no',
    schema: z.union([z.boolean(), z.enum(['yes', 'no']).transform((word) => word === 'yes')]),
  },
  workspaceId: {
    flag: '--workspace-id <name>',
    variable: 'WAYMARK_WORKSPACE_ID',
    about:
      "Names this working copy among all that share a database. Default: the folder's and the machine's name.",
    must: 'be letters, digits, dots, - and _',
    schema: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
    inFile: 'trusted',
  },
  tools: {
    flag: '--tools <policy>',
    variable: 'WAYMARK_TOOLS',
    about:
      'What the agent may do without asking, by tool: run_command=allow,delete_file=deny. In the file an object. ' +
      'Default: ask for run_command and for tools of MCP servers, allow for all others.',
    must: 'be tools with allow, ask or deny, such as run_command=allow,delete_file=ask',
    schema: z.union([z.record(z.string(), toolPolicy), z.string().transform(policiesIn)]),
    inFile: 'trusted',
  },
  mcpServers: {
    flag: null,
    variable: 'WAYMARK_MCP_SERVERS',
    about:
      'Servers that add tools, as an object: {"name": {"command": "…", "args": ["…"], "env": {}}} or {"name": {"url": "…"}}. ' +
      'A command runs in the sandbox without network; "network": true grants it, "sandbox": false runs it outside.',
    must: 'be an object of servers, each with a command or a url',
    schema: z.union([mcpServers, z.string().transform(jsonIn).pipe(mcpServers)]),
    inFile: 'trusted',
  },
  conversationContexts: {
    flag: null,
    variable: 'WAYMARK_CONVERSATION_CONTEXTS',
    about:
      'Named ways to talk, chosen by a conversation, as an object: {"name": {"instructions": "…", "model": "…", "temperature": 0.2}}.',
    must: 'be an object of contexts, each with instructions, model or temperature',
    schema: z.union([conversationContexts, z.string().transform(jsonIn).pipe(conversationContexts)]),
    inFile: 'trusted',
  },
  agentContexts: {
    flag: null,
    variable: 'WAYMARK_AGENT_CONTEXTS',
    about:
      'Named environments, chosen by a conversation, as an object: {"name": {"baseUrl": "…", "apiKeyVariable": "…", "index": "…"}}: another ' +
      'model server with the variable that has its key, and an index of its own.',
    must: 'be an object of contexts, each with baseUrl, apiKeyVariable or index',
    schema: z.union([agentContexts, z.string().transform(jsonIn).pipe(agentContexts)]),
    inFile: 'trusted',
  },
  sandbox: {
    flag: '--sandbox <when>',
    variable: 'WAYMARK_SANDBOX',
    about:
      'Whether commands and tool servers run in a sandbox: auto (where one is installed), required (commands are refused ' +
      'without one) or off. Default: auto.',
    must: 'be auto, required or off',
    schema: z.enum(['auto', 'required', 'off']),
    inFile: 'trusted',
  },
  commandNetwork: {
    flag: '--command-network <yes-or-no>',
    variable: 'WAYMARK_COMMAND_NETWORK',
    about: 'Give every command in the sandbox network access. Default: no.',
    must: 'be yes or no',
    schema: z.union([z.boolean(), z.enum(['yes', 'no']).transform((word) => word === 'yes')]),
    inFile: 'trusted',
  },
  commandEnv: {
    flag: '--command-env <names>',
    variable: 'WAYMARK_COMMAND_ENV',
    about:
      'Variables that commands may see besides the harmless ones (PATH, HOME, LANG …), separated by commas. ' +
      'Keys and tokens of Waymark never are.',
    must: 'be names of variables separated by commas',
    schema: z.union([z.array(z.string()), z.string().transform((text) => text.split(',').filter(Boolean))]),
    inFile: 'trusted',
  },
  include: {
    flag: '--include <patterns>',
    variable: 'WAYMARK_INCLUDE',
    about:
      'Files that checkpoints keep although they are ignored or hidden: patterns as in .gitignore, separated by ' +
      'commas, such as .env,.github/**.',
    must: 'be patterns separated by commas',
    schema: list,
  },
  exclude: {
    flag: '--exclude <patterns>',
    variable: 'WAYMARK_EXCLUDE',
    about: 'Files that checkpoints leave out besides those: patterns as in .gitignore, separated by commas.',
    must: 'be patterns separated by commas',
    schema: list,
    inFile: 'trusted',
  },
  maxFileMb: {
    flag: '--max-file-mb <number>',
    variable: 'WAYMARK_MAX_FILE_MB',
    about: 'Larger files are left out of checkpoints. Default: 10.',
    must: 'be a number from 0.001 to 1000',
    schema: z.coerce.number().min(0.001).max(1000),
  },
  watch: {
    flag: '--watch <yes-or-no>',
    variable: 'WAYMARK_WATCH',
    about:
      'Whether large projects are watched, so that a checkpoint looks only at what may have changed. Default: yes.',
    must: 'be yes or no',
    schema: z.union([z.boolean(), z.enum(['yes', 'no']).transform((word) => word === 'yes')]),
  },
  retentionHours: {
    flag: '--retention-hours <number>',
    variable: 'WAYMARK_RETENTION_HOURS',
    about: 'How long what was deleted can be brought back. Default: 24.',
    must: 'be a number from 0 to 87600',
    schema: z.coerce.number().min(0).max(87_600),
    inFile: 'trusted',
  },
  gcMinutes: {
    flag: '--gc-minutes <number>',
    variable: 'WAYMARK_GC_MINUTES',
    about: 'How often what no conversation reaches any more is collected. Default: 60.',
    must: 'be a number from 0.01 to 10080',
    schema: z.coerce.number().min(0.01).max(10_080),
    inFile: 'trusted',
  },
  embedder: {
    flag: '--embedder <which>',
    variable: 'WAYMARK_EMBEDDER',
    about:
      'What finds pieces of files by their meaning: local (a small model that comes along), openai (a server with /embeddings) or ' +
      'none (by words alone). Default: local.',
    must: 'be local, openai or none',
    schema: z.enum(['local', 'openai', 'none']),
    inFile: 'trusted',
  },
  maxModelCalls: {
    flag: '--max-model-calls <number>',
    variable: 'WAYMARK_MAX_MODEL_CALLS',
    about: 'How often a run may call the model. Default: 50.',
    must: 'be a whole number from 1 to 1000',
    schema: z.coerce.number().int().min(1).max(1000),
  },
  maxRuns: {
    flag: '--max-runs <number>',
    variable: 'WAYMARK_MAX_RUNS',
    about: 'How many conversations this process works on at once. Default: 256.',
    must: 'be a whole number from 1 to 10000',
    schema: z.coerce.number().int().min(1).max(10_000),
  },
  leaseSeconds: {
    flag: '--lease-seconds <number>',
    variable: 'WAYMARK_LEASE_SECONDS',
    about: 'How long a process that shares a database holds a run without a sign of life. Default: 15.',
    must: 'be a number from 1 to 3600',
    schema: z.coerce.number().min(1).max(3600),
  },
  logLevel: {
    flag: '--log-level <level>',
    variable: 'WAYMARK_LOG_LEVEL',
    about: 'How much the server logs: silent, error, info or debug. Default: info.',
    must: 'be silent, error, info or debug',
    schema: z.enum(['silent', 'error', 'info', 'debug']),
  },
} as const satisfies Record<string, Setting>

export interface Setting {
  flag: string | null
  variable: string
  about: string
  /** What a value that is refused should have been: it must … */
  must: string
  schema: z.ZodType
  /** The file comes with the project, which may be anybody's: some settings it may not make, some only when trusted. */
  inFile?: 'never' | 'trusted'
}

export type SettingName = keyof typeof settings
export type Given = { [K in SettingName]?: z.infer<(typeof settings)[K]['schema']> }

function policiesIn(text: string, context: z.RefinementCtx): Record<string, z.infer<typeof toolPolicy>> {
  const parsed = z
    .record(z.string().min(1), toolPolicy)
    .safeParse(Object.fromEntries(text.split(',').map((part) => part.split('=').map((word) => word.trim()))))
  if (parsed.success) return parsed.data
  context.addIssue({ code: 'custom', message: 'not a policy' })
  return z.NEVER
}

function jsonIn(text: string, context: z.RefinementCtx): unknown {
  try {
    return JSON.parse(text)
  } catch {
    context.addIssue({ code: 'custom', message: 'not JSON' })
    return z.NEVER
  }
}
