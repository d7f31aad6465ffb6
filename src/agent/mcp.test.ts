import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as z from 'zod'
import { calls, startModelServer } from '../../test/support/model-server.ts'
import { allFrames, approve, frameWhen, ofKind } from '../../test/support/runs.ts'
import { startTestServer } from '../../test/support/server.ts'
import { createMcpTools } from './mcp.ts'

const sdk = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/sdk/dist/esm/server', import.meta.url),
)
const zod = fileURLToPath(new URL('../../node_modules/zod/index.js', import.meta.url))

/** A real MCP server, as a program. */
const PROGRAM = `
import { McpServer } from ${JSON.stringify(`${sdk}/mcp.js`)}
import { StdioServerTransport } from ${JSON.stringify(`${sdk}/stdio.js`)}
import * as z from ${JSON.stringify(zod)}
const server = new McpServer({ name: 'test', version: '1' })
server.registerTool('add', { description: 'Adds', inputSchema: { a: z.number(), b: z.number() }, annotations: { readOnlyHint: true } },
  async ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }))
server.registerTool('env', { description: 'Shows the environment' },
  async () => ({ content: [{ type: 'text', text: JSON.stringify(process.env) }] }))
server.registerTool('fail', {}, async () => ({ isError: true, content: [{ type: 'text', text: 'No.' }] }))
await server.connect(new StdioServerTransport())
`

let folder: string
let program: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-mcp-'))
  program = join(folder, 'server.mjs')
  await writeFile(program, PROGRAM)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const call = {
  tenant: 'default',
  conversationId: 'conv_x' as const,
  grant: { network: false, outside: false },
  signal: new AbortController().signal,
  show() {},
  async confirm() {},
}
const errors: string[] = []
const log = { error: (_: object, message: string) => errors.push(message) }

function toolsOf(servers: Parameters<typeof createMcpTools>[0]['servers']) {
  return createMcpTools({
    servers,
    root: folder,
    environment: { PATH: process.env.PATH ?? '' },
    sandbox: null,
    log,
  })
}

describe('tools of MCP servers', () => {
  it('come from a program, which does not inherit our environment', async () => {
    process.env.WAYMARK_TEST_SECRET = 'secret'
    const mcp = toolsOf({ calc: { command: process.execPath, args: [program], env: { GIVEN: 'yes' } } })
    const tools = new Map((await mcp.tools()).map((tool) => [tool.name, tool]))
    expect([...tools.keys()]).toEqual(['calc__add', 'calc__env', 'calc__fail'])
    expect(tools.get('calc__add')).toMatchObject({
      effects: { isRepeatable: false, files: 'unrecorded' },
      policy: 'ask',
      description: 'Adds',
    })
    expect(await tools.get('calc__add')?.run({ a: 2, b: 3 }, call)).toEqual({ output: '5', isFailed: false })
    expect(await tools.get('calc__fail')?.run({}, call)).toEqual({ output: 'No.', isFailed: true })
    const seen = JSON.parse(String((await tools.get('calc__env')?.run({}, call))?.output)) as object
    expect(seen).toMatchObject({ GIVEN: 'yes' })
    expect(seen).not.toHaveProperty('WAYMARK_TEST_SECRET')
    await mcp.close()
  })

  it('come from an HTTP address', async () => {
    const http = createServer((request, answer) => {
      const server = new McpServer({ name: 'test', version: '1' })
      server.registerTool('double', { inputSchema: { n: z.number() } }, ({ n }) => ({
        content: [{ type: 'text', text: String(n * 2) }],
      }))
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
      void server.connect(transport as never).then(() => transport.handleRequest(request, answer))
    })
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    const mcp = toolsOf({ web: { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp` } })
    const [double] = await mcp.tools()
    expect(await double?.run({ n: 21 }, call)).toEqual({ output: '42', isFailed: false })
    await mcp.close()
    http.closeAllConnections()
    http.close()
  })

  it('are left out, with a logged error, when their server is unreachable', async () => {
    const mcp = toolsOf({ gone: { command: join(folder, 'no-such-program') } })
    expect(await mcp.tools()).toEqual([])
    expect(errors).toContain("a tool server can't be reached")
    await mcp.close()
  })

  it('need approval, like commands, and are called in a run', async () => {
    const model = await startModelServer([{ events: calls('calc__add', { a: 1, b: 2 }) }])
    const server = await startTestServer({
      baseUrl: model.url,
      mcpServers: { calc: { command: process.execPath, args: [program], sandbox: false } },
    })
    const { id } = await server.client.createConversation()
    const { run_id } = await server.client.sendMessage(id, { content: 'add' })
    const { tool_call_id } = await frameWhen(server, id, 'tool.approval')
    await approve(server.client, id, run_id, tool_call_id)
    await frameWhen(server, id, 'final')
    expect(ofKind(await allFrames(server, id), 'tool.output')).toMatchObject([{ output: '3' }])
    expect(model.requests[0]?.tools.map((tool) => tool.name)).toContain('calc__add')
    await server.close()
    await model.close()
  })
})
