import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { type Tool, ToolError } from './tools/tool.ts'

/** A server that brings tools, as waymark.config.json names it: a command to run, or an address. */
export type McpServer =
  | { command: string; args?: string[] | undefined; env?: Record<string, string> | undefined }
  | { url: string; headers?: Record<string, string> | undefined }

export interface McpTools {
  /** The tools of all servers that can be reached now. */
  tools(): Promise<Tool[]>
  close(): Promise<void>
}

const CALL_MS = 120_000
const CONNECT_MS = 20_000
/** A server that can't be reached is tried again after this. */
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
  log: { error(details: object, message: string): void }
}): McpTools {
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
      deps.log.error({ err: error, server: name }, 'a tool server can not be reached')
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
    await client.connect(await transportTo(server, deps), { timeout: CONNECT_MS })
    const tools = await allTools(client)
    return tools
      .filter((tool) => isUsable(`${name}__${tool.name}`))
      .map((tool) => ({
        name: `${name}__${tool.name}`,
        description: tool.description ?? '',
        parameters: tool.inputSchema as Record<string, unknown>,
        isReadOnly: tool.annotations?.readOnlyHint === true,
        policy: 'ask',
        async run(args, { signal }) {
          const params = { name: tool.name, arguments: args as Record<string, unknown> }
          const result = await client
            .callTool(params, undefined, { signal, timeout: CALL_MS })
            .catch((error: unknown) => {
              signal.throwIfAborted()
              throw new ToolError(`The tool server ${name} failed: ${(error as Error).message}`)
            })
          return { output: outputOf(result), isFailed: result.isError === true }
        },
      }))
  }

  /** One bad name, and a provider refuses every request. */
  function isUsable(toolName: string): boolean {
    const isGood = /^[A-Za-z0-9_-]{1,64}$/.test(toolName)
    if (!isGood)
      deps.log.error({ tool: toolName }, 'a tool has a name that models do not take; it is left out')
    return isGood
  }

  return {
    async tools() {
      const names = Object.entries(deps.servers)
      return (await Promise.all(names.map(([name, server]) => connectionTo(name, server).tools))).flat()
    },
    async close() {
      await Promise.allSettled([...connections.values()].map(async ({ client }) => await client?.close()))
    },
  }
}

async function allTools(client: Client) {
  const found = []
  let cursor: string | undefined
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout: CONNECT_MS })
    found.push(...page.tools)
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return found
}

async function transportTo(
  server: McpServer,
  { root, environment }: { root: string; environment: Readonly<Record<string, string>> },
) {
  if ('url' in server) {
    const { StreamableHTTPClientTransport } = await import(
      '@modelcontextprotocol/sdk/client/streamableHttp.js'
    )
    return new StreamableHTTPClientTransport(new URL(server.url), {
      requestInit: { headers: server.headers ?? {} },
    })
  }
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js')
  return new StdioClientTransport({
    command: server.command,
    args: server.args ?? [],
    env: { ...environment, ...server.env },
    cwd: root,
    stderr: 'ignore',
  })
}

/** Text as text; of anything else what it is. */
function outputOf(result: Awaited<ReturnType<Client['callTool']>>): unknown {
  if (result.structuredContent !== undefined) return result.structuredContent
  const parts = (result.content ?? []) as { type: string; text?: string; mimeType?: string }[]
  return parts
    .map((part) => part.text ?? `[${part.type}${part.mimeType ? `: ${part.mimeType}` : ''}]`)
    .join('\n')
}
