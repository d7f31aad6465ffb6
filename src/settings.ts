import * as z from 'zod'

const toolPolicy = z.enum(['allow', 'ask', 'deny'])

const list = z.union([
  z.array(z.string().min(1)),
  z.string().transform((text) => text.split(',').filter(Boolean)),
])

const modelUrl = z
  .url({ protocol: /^https?$/ })
  .refine((url) => !new URL(url).username && !new URL(url).password)

/** A key comes from the environment only: other users can read flags, and files get shared. */
function key(variable: string, about: string) {
  const schema = z.string().min(1)
  return {
    flag: null,
    variable,
    about: `${about} From the environment only.`,
    must: 'be a key',
    schema,
    inFile: 'never',
  } as const
}

export const mcpServers = z.record(
  // Two underscores separate the server's name from the tool's.
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

export const agents = z.record(
  z.string().regex(/^(?!.*__)[A-Za-z0-9_-]{1,40}$/),
  z.strictObject({
    command: z.string().min(1),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    mode: z.string().min(1).optional(),
    variables: z.array(z.string().min(1)).optional(),
  }),
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
    protocol: z.enum(['responses', 'chat-completions', 'anthropic']).optional(),
    apiKeyVariable: z.string().min(1).optional(),
    index: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,100}$/)
      .optional(),
  }),
)

/**
 * Every setting: its flag, its variable, its name in waymark.config.json and its meaning. A flag takes precedence over
 * a variable, a variable over the file. docs/settings.md is generated from this table.
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
    about: 'The port to listen on; 0 picks a free one. Default: 4747.',
    must: 'be a whole number from 0 to 65535',
    schema: z.coerce.number().int().min(0).max(65_535),
  },
  allowedHosts: {
    flag: '--allowed-hosts <names>',
    variable: 'WAYMARK_ALLOWED_HOSTS',
    about: 'Host names to accept in addition to the loopback ones, separated by commas.',
    must: 'be host names separated by commas',
    schema: z.union([z.array(z.string()), z.string().transform((text) => text.split(',').filter(Boolean))]),
    inFile: 'trusted',
  },
  dataDir: {
    flag: '--data-dir <dir>',
    variable: 'WAYMARK_DATA_DIR',
    about:
      'The folder of the ledger, the checkpoints and the working copies, relative to the project. Default: a folder ' +
      'for this project in ~/.local/state/waymark/projects.',
    must: 'be a folder',
    schema: z.string().min(1),
    inFile: 'trusted',
  },
  databaseUrl: {
    flag: '--database-url <url>',
    variable: 'WAYMARK_DATABASE_URL',
    about: 'A Postgres database for the ledger, postgres://…. Default: SQLite in the data folder.',
    must: 'be a URL that starts with postgres://',
    schema: z.string().regex(/^postgres(ql)?:\/\//, 'must start with postgres://'),
    inFile: 'trusted',
  },
  blobs: {
    flag: '--blobs <url>',
    variable: 'WAYMARK_BLOBS',
    about:
      'An S3-compatible store for blobs and checkpoint objects, s3://bucket/prefix, so that processes need no shared ' +
      'folder. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the usual AWS ' +
      'configuration. Default: the data folder.',
    must: 'be a URL such as s3://bucket/prefix',
    schema: z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[A-Za-z0-9!_.*'()/-]*)?$/),
    inFile: 'trusted',
  },
  s3Endpoint: {
    flag: '--s3-endpoint <url>',
    variable: 'WAYMARK_S3_ENDPOINT',
    about: 'The URL of the S3-compatible server. Default: AWS.',
    must: 'be a URL that starts with http:// or https://',
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
    about: 'The token to use instead of a generated one. Never a flag: other users can read flags.',
    must: 'be at least 16 characters long',
    schema: z.string().min(16),
    inFile: 'trusted',
  },
  url: {
    flag: '--url <url>',
    variable: 'WAYMARK_URL',
    about: 'The server that commands connect to. Default: the one running for the project.',
    must: 'be a URL that starts with http:// or https://',
    schema: z.url({ protocol: /^https?$/ }),
    inFile: 'trusted',
  },
  model: {
    flag: '--model <name>',
    variable: 'WAYMARK_MODEL',
    about:
      'The model, as `provider/model` or the name of one of the default provider. Providers: openai, anthropic, gemini, ' +
      'openrouter, ollama, custom (the base URL). Default: the default model of the first provider that has a key; ' +
      'without any, the demo model.',
    must: 'be the name of a model',
    schema: z.string().min(1),
  },
  baseUrl: {
    flag: '--base-url <url>',
    variable: 'OPENAI_BASE_URL',
    about:
      'The URL of a model server, such as vLLM, llama.cpp, LM Studio or a gateway: the provider `custom`, and the default ' +
      'one. Not in the file: the key is sent there.',
    must: 'be a URL that starts with http:// or https://, without a user or password',
    schema: modelUrl,
    inFile: 'never',
  },
  protocol: {
    flag: '--protocol <name>',
    variable: 'WAYMARK_PROTOCOL',
    about:
      'The protocol of the server at the base URL: responses, chat-completions, anthropic, or auto, which tries the first ' +
      'two. Default: auto.',
    must: 'be auto, responses, chat-completions or anthropic',
    schema: z.enum(['auto', 'responses', 'chat-completions', 'anthropic']),
  },
  apiKey: key('OPENAI_API_KEY', 'The key for OpenAI, or for the server at the base URL.'),
  anthropicApiKey: key('ANTHROPIC_API_KEY', 'The key for Anthropic.'),
  geminiApiKey: key('GEMINI_API_KEY', 'The key for Gemini.'),
  openrouterApiKey: key('OPENROUTER_API_KEY', 'The key for OpenRouter.'),
  ollamaHost: {
    flag: null,
    variable: 'OLLAMA_HOST',
    about: 'The address of Ollama, such as 127.0.0.1:11434. Adds the provider ollama.',
    must: 'be a host and port, or a URL',
    schema: z
      .string()
      .transform((host) => (/^https?:\/\//.test(host) ? host : `http://${host}`))
      .pipe(modelUrl),
    inFile: 'never',
  },
  modelTimeoutSeconds: {
    flag: '--model-timeout-seconds <number>',
    variable: 'WAYMARK_MODEL_TIMEOUT_SECONDS',
    about: "How many seconds the model's server may send nothing before a request fails. Default: 300.",
    must: 'be a number from 1 to 3600',
    schema: z.coerce.number().min(1).max(3600),
  },
  store: {
    flag: '--store <when>',
    variable: 'WAYMARK_STORE',
    about:
      'Let the provider store responses, so that only new input is sent: yes, no, or auto, which is yes for OpenAI only. ' +
      'A server that then refuses or ignores stored responses is sent the whole conversation. Default: auto.',
    must: 'be auto, yes or no',
    schema: z.union([
      z.boolean(),
      z.enum(['auto', 'yes', 'no']).transform((word) => (word === 'auto' ? word : word === 'yes')),
    ]),
  },
  workspaceId: {
    flag: '--workspace-id <name>',
    variable: 'WAYMARK_WORKSPACE_ID',
    about:
      'The name of this working copy, unique among all that share a database. Default: the names of the folder and the ' +
      'machine.',
    must: 'be letters, digits, dots, - and _',
    schema: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
    inFile: 'trusted',
  },
  tools: {
    flag: '--tools <policy>',
    variable: 'WAYMARK_TOOLS',
    about:
      'The policy of each tool: run_command=allow,delete_file=deny. An object in the file. ' +
      'Default: ask for run_command and for tools of MCP servers, allow for all others.',
    must: 'be a list of tools with allow, ask or deny, such as run_command=allow,delete_file=ask',
    schema: z.union([z.record(z.string(), toolPolicy), z.string().transform(policiesIn)]),
    inFile: 'trusted',
  },
  mcpServers: {
    flag: null,
    variable: 'WAYMARK_MCP_SERVERS',
    about:
      'MCP servers that add tools, as an object: {"name": {"command": "…", "args": ["…"], "env": {}}} or ' +
      '{"name": {"url": "…"}}. ' +
      'A command runs in the sandbox without network; "network": true grants it, "sandbox": false runs it without the sandbox.',
    must: 'be an object of servers, each with a command or a url',
    schema: z.union([mcpServers, z.string().transform(jsonIn).pipe(mcpServers)]),
    inFile: 'trusted',
  },
  agents: {
    flag: null,
    variable: 'WAYMARK_AGENTS',
    about:
      'Hosted agents that speak ACP, as an object: {"name": {"command": "…", "args": ["…"], "env": {}, "variables": ["KEY"], "mode": "…"}}. ' +
      '`variables` names variables of the server that the agent gets, `mode` the session mode to select. They add to codex, claude, opencode and gemini.',
    must: 'be an object of agents, each with a command',
    schema: z.union([agents, z.string().transform(jsonIn).pipe(agents)]),
    inFile: 'trusted',
  },
  gateway: {
    flag: '--gateway <when>',
    variable: 'WAYMARK_GATEWAY',
    about:
      'Record the model requests of hosted agents by routing them through this server: yes or no. ' +
      'Default: yes.',
    must: 'be yes or no',
    schema: z.union([z.boolean(), z.enum(['yes', 'no']).transform((word) => word === 'yes')]),
    inFile: 'trusted',
  },
  gatewayOpenaiUrl: {
    flag: '--gateway-openai-url <url>',
    variable: 'WAYMARK_GATEWAY_OPENAI_URL',
    about:
      'The OpenAI server that the gateway forwards agent requests to, unless the agent is configured to use another. ' +
      'Default: https://api.openai.com/v1.',
    must: 'be a URL that starts with http:// or https://, without a user or password',
    schema: modelUrl,
    inFile: 'never',
  },
  gatewayAnthropicUrl: {
    flag: '--gateway-anthropic-url <url>',
    variable: 'WAYMARK_GATEWAY_ANTHROPIC_URL',
    about:
      'The Anthropic server that the gateway forwards agent requests to, unless the agent is configured to use another. ' +
      'Default: https://api.anthropic.com.',
    must: 'be a URL that starts with http:// or https://, without a user or password',
    schema: modelUrl,
    inFile: 'never',
  },
  conversationContexts: {
    flag: null,
    variable: 'WAYMARK_CONVERSATION_CONTEXTS',
    about:
      'Named styles of answering that a conversation can select, as an object: ' +
      '{"name": {"instructions": "…", "model": "…", "temperature": 0.2}}.',
    must: 'be an object of contexts, each with instructions, model or temperature',
    schema: z.union([conversationContexts, z.string().transform(jsonIn).pipe(conversationContexts)]),
    inFile: 'trusted',
  },
  agentContexts: {
    flag: null,
    variable: 'WAYMARK_AGENT_CONTEXTS',
    about:
      'Named environments that a conversation can select, as an object: ' +
      '{"name": {"baseUrl": "…", "protocol": "…", "apiKeyVariable": "…", "index": "…"}}: another model server, its ' +
      'protocol, the variable with its key, and a separate index.',
    must: 'be an object of contexts, each with baseUrl, protocol, apiKeyVariable or index',
    schema: z.union([agentContexts, z.string().transform(jsonIn).pipe(agentContexts)]),
    inFile: 'trusted',
  },
  sandbox: {
    flag: '--sandbox <when>',
    variable: 'WAYMARK_SANDBOX',
    about:
      'Run commands and tool servers in a sandbox: auto (if one is installed), required (commands are refused ' +
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
      'Variables that commands may see in addition to the harmless ones (PATH, HOME, LANG …), separated by commas. ' +
      'Keys and tokens of Waymark are never passed on.',
    must: 'be names of variables separated by commas',
    schema: z.union([z.array(z.string()), z.string().transform((text) => text.split(',').filter(Boolean))]),
    inFile: 'trusted',
  },
  include: {
    flag: '--include <patterns>',
    variable: 'WAYMARK_INCLUDE',
    about:
      'Ignored or hidden files that checkpoints keep: patterns as in .gitignore, separated by ' +
      'commas, such as .env,.github/**.',
    must: 'be patterns separated by commas',
    schema: list,
  },
  exclude: {
    flag: '--exclude <patterns>',
    variable: 'WAYMARK_EXCLUDE',
    about: 'Additional files that checkpoints leave out: patterns as in .gitignore, separated by commas.',
    must: 'be patterns separated by commas',
    schema: list,
    inFile: 'trusted',
  },
  maxFileMb: {
    flag: '--max-file-mb <number>',
    variable: 'WAYMARK_MAX_FILE_MB',
    about: 'Checkpoints leave out larger files. Default: 10.',
    must: 'be a number from 0.001 to 1000',
    schema: z.coerce.number().min(0.001).max(1000),
  },
  watch: {
    flag: '--watch <yes-or-no>',
    variable: 'WAYMARK_WATCH',
    about:
      'Watch large projects, so that a checkpoint only examines files that may have changed. Default: yes.',
    must: 'be yes or no',
    schema: z.union([z.boolean(), z.enum(['yes', 'no']).transform((word) => word === 'yes')]),
  },
  retentionHours: {
    flag: '--retention-hours <number>',
    variable: 'WAYMARK_RETENTION_HOURS',
    about: 'How many hours a deletion can be undone. Default: 24.',
    must: 'be a number from 0 to 87600',
    schema: z.coerce.number().min(0).max(87_600),
    inFile: 'trusted',
  },
  gcMinutes: {
    flag: '--gc-minutes <number>',
    variable: 'WAYMARK_GC_MINUTES',
    about: 'Minutes between collections of data that no conversation reaches. Default: 60.',
    must: 'be a number from 0.01 to 10080',
    schema: z.coerce.number().min(0.01).max(10_080),
    inFile: 'trusted',
  },
  embedder: {
    flag: '--embedder <which>',
    variable: 'WAYMARK_EMBEDDER',
    about:
      'How files are searched by meaning: local (a small bundled model), openai (a server with /embeddings) or ' +
      'none (by words only). Default: local.',
    must: 'be local, openai or none',
    schema: z.enum(['local', 'openai', 'none']),
    inFile: 'trusted',
  },
  maxModelCalls: {
    flag: '--max-model-calls <number>',
    variable: 'WAYMARK_MAX_MODEL_CALLS',
    about: 'How many times a run may call the model. Default: 50.',
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
    about: 'Seconds that a run is held without a sign of life when processes share a database. Default: 15.',
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
  /** Completes the error message for a refused value: it must … */
  must: string
  schema: z.ZodType
  /**
   * The file comes with the project, which may be untrusted: some settings are never allowed in it, some only when
   * trusted.
   */
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
