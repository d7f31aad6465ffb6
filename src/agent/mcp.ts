import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { cutMiddle, cutText } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { createBoundedFetch } from '../outbound/bounded-fetch.ts'
import type { Place, Sandbox } from '../sandbox/confined-place.ts'
import { mendRedirection } from '../sandbox/repository-guard.ts'
import { startProgram } from '../sandbox/start.ts'
import { createProgramTransport } from './mcp-transport.ts'
import { type Tool, ToolError } from './tools/tool.ts'

/** A tool server as configured in waymark.config.json: a command to run, or a URL. */
export type McpServer =
  | {
      command: string
      args?: string[] | undefined
      env?: Record<string, string> | undefined
      /** Allows network access. Default: false in a sandbox. */
      network?: boolean | undefined
      /** `false` runs it outside the sandbox, with the user's permissions. */
      sandbox?: boolean | undefined
    }
  | { url: string; headers?: Record<string, string> | undefined }

export interface McpTools {
  /** The tools of all servers that are currently reachable. */
  tools(): Promise<Tool[]>
  close(): Promise<void>
}

interface Waits {
  connectMs: number
  /** The time limit for listing all pages of a server's tools. */
  listMs: number
  callMs: number
}

const usualWaits: Waits = { connectMs: 20_000, listMs: 30_000, callMs: 120_000 }
const MAX_PAGES = 20
const MAX_TOOLS = 200
const MAX_DESCRIPTION = 4000
const MAX_SCHEMA_CHARACTERS = 32_000
const MAX_OUTPUT_CHARACTERS = 4 * 1024 * 1024
const HTTP_LIMITS = { totalBytes: 64 * 1024 * 1024, eventBytes: 8 * 1024 * 1024 }
/** An unreachable server is retried after this time. */
const RETRY_MS = 30_000

interface Connection {
  tools: Promise<Tool[]>
  client: Client | null
  failedAt: number | null
}

export function createMcpTools(deps: {
  servers: Readonly<Record<string, McpServer>>
  root: string
  environment: Readonly<Record<string, string>>
  /** Null when there is no sandbox. */
  sandbox: { sandbox: Sandbox; place: Place } | null
  log: Pick<Log, 'error'>
  waits?: Partial<Waits>
}): McpTools {
  const waits = { ...usualWaits, ...deps.waits }
  const connections = new Map<string, Connection>()

  function connectionTo(name: string, server: McpServer): Connection {
    const known = connections.get(name)
    const isStale = known?.failedAt != null && Date.now() - known.failedAt > RETRY_MS
    if (known && !isStale) return known
    const connection: Connection = { tools: Promise.resolve([]), client: null, failedAt: null }
    connections.set(name, connection)
    connection.tools = open(name, server, connection).catch(async (error: unknown) => {
      connection.failedAt = Date.now()
      await connection.client?.close().catch(() => {})
      deps.log.error({ err: error, server: name }, "a tool server can't be reached")
      return []
    })
    return connection
  }

  async function open(name: string, server: McpServer, connection: Connection): Promise<Tool[]> {
    const sdk = await import('@modelcontextprotocol/sdk/client/index.js')
    const client = new sdk.Client({ name: 'waymark', version: '0.1.0' })
    connection.client = client
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has no other way
    client.onclose = () => {
      connection.failedAt ??= Date.now()
    }
    await client.connect(await transportTo(server, deps), { timeout: waits.connectMs })
    const tools = await allTools(client, waits)
    return tools
      .filter((tool) => isUsable(`${name}__${tool.name}`) && hasUsableSchema(tool.inputSchema))
      .map((tool) => ({
        name: `${name}__${tool.name}`,
        description: cutText(tool.description ?? '', MAX_DESCRIPTION),
        parameters: tool.inputSchema as Record<string, unknown>,
        // A server's description of its own tools must not loosen the policy.
        effects: { isRepeatable: false, files: 'unrecorded' },
        policy: 'ask',
        async run(args, { signal }) {
          const params = { name: tool.name, arguments: args as Record<string, unknown> }
          const result = await client
            .callTool(params, undefined, { signal, timeout: waits.callMs })
            .catch((error: unknown) => {
              signal.throwIfAborted()
              throw new ToolError(
                `The tool server ${name} failed: ${cutText((error as Error).message, 1000)}`,
              )
            })
          return { output: outputOf(result), isFailed: result.isError === true }
        },
      }))
  }

  /** One invalid name makes a provider reject every request. */
  function isUsable(toolName: string): boolean {
    const isGood = /^[A-Za-z0-9_-]{1,64}$/.test(toolName)
    if (!isGood)
      deps.log.error({ tool: toolName }, 'a tool has a name that models do not accept; it is left out')
    return isGood
  }

  return {
    async tools() {
      const names = Object.entries(deps.servers)
      const found = (
        await Promise.all(names.map(([name, server]) => connectionTo(name, server).tools))
      ).flat()
      return [...new Map(found.map((tool) => [tool.name, tool])).values()]
    },
    async close() {
      await Promise.allSettled([...connections.values()].map(async ({ client }) => await client?.close()))
      // The servers' programs also worked in the project.
      if (deps.sandbox) mendRedirection(join(deps.root, '.git'))
    },
  }
}

async function allTools(client: Client, { listMs, connectMs }: Waits) {
  const found = []
  const until = Date.now() + listMs
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const timeout = Math.min(connectMs, until - Date.now())
    if (timeout <= 0) throw new Error('listing the tools took too long')
    const { tools, nextCursor } = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout })
    found.push(...tools)
    // A server may send pages forever; tools beyond the limit are left out.
    if (nextCursor === undefined || nextCursor === cursor || found.length >= MAX_TOOLS) break
    cursor = nextCursor
  }
  return found.slice(0, MAX_TOOLS)
}

function hasUsableSchema(schema: unknown): boolean {
  try {
    return JSON.stringify(schema).length <= MAX_SCHEMA_CHARACTERS
  } catch {
    // Nested too deeply.
    return false
  }
}

async function transportTo(
  server: McpServer,
  {
    root,
    environment,
    sandbox,
  }: Pick<Parameters<typeof createMcpTools>[0], 'root' | 'environment' | 'sandbox'>,
): Promise<Transport> {
  if ('url' in server) {
    const { StreamableHTTPClientTransport } = await import(
      '@modelcontextprotocol/sdk/client/streamableHttp.js'
    )
    return new StreamableHTTPClientTransport(new URL(server.url), {
      requestInit: { headers: server.headers ?? {} },
      fetch: createBoundedFetch({ limits: HTTP_LIMITS }),
    })
  }
  const { command, args = [], env = {}, network = false, sandbox: isConfined = true } = server
  return createProgramTransport(() =>
    startProgram({
      argv: [command, ...args],
      cwd: root,
      environment: { ...environment, ...env },
      confined: sandbox && isConfined ? { ...sandbox, network } : null,
    }),
  )
}

/** Text parts as text; other parts as their type. */
function outputOf(result: Awaited<ReturnType<Client['callTool']>>): unknown {
  if (result.structuredContent !== undefined) return bounded(result.structuredContent)
  const parts = (result.content ?? []) as { type: string; text?: string; mimeType?: string }[]
  const text = parts
    .slice(0, MAX_PARTS)
    .map((part) => part.text ?? `[${part.type}${part.mimeType ? `: ${part.mimeType}` : ''}]`)
    .join('\n')
  return cutMiddle(text, MAX_OUTPUT_CHARACTERS)
}

const MAX_PARTS = 1000

/** Returns the value unchanged, unless it is too large or nested too deeply to be stored. */
function bounded(value: unknown): unknown {
  try {
    const text = JSON.stringify(value)
    return text.length <= MAX_OUTPUT_CHARACTERS ? value : cutMiddle(text, MAX_OUTPUT_CHARACTERS)
  } catch {
    return '[an answer that is nested too deeply]'
  }
}
