import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { createMcpTools } from '../../src/agent/mcp.ts'
import type { AnyFrame, Frame } from '../../src/protocol/frames.ts'
import { startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { seeded } from './hostile-project.ts'
import { attacks, startHostileModel } from './model-attacks.ts'

const program = fileURLToPath(new URL('./mcp-server.mjs', import.meta.url))
const MEGABYTE = 1024 * 1024

/** Polls /health from a separate process, since this one is busy attacking. */
function watchHealth(url: string): { slowest(): Promise<number> } {
  const script = `let slowest = 0
    process.on('SIGTERM', () => { console.log(slowest); process.exit() })
    for (;;) {
      const from = performance.now()
      await (await fetch(${JSON.stringify(`${url}/health`)})).arrayBuffer()
      slowest = Math.max(slowest, performance.now() - from)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.on('data', (chunk) => (text += chunk))
  return {
    async slowest() {
      child.kill('SIGTERM')
      await once(child, 'close')
      return Number(text)
    },
  }
}

describe.skipIf(process.platform !== 'linux')('a hostile model server', () => {
  it(
    '[T7] ends every run with a provider error, within bounded memory, and never blocks the server',
    async () => {
      const seed = Number(process.env.WAYMARK_SEED ?? Date.now() % 1_000_000)
      console.log(`seed ${seed}`)
      const random = seeded(seed)
      const project = await mkdtemp(join(tmpdir(), 'waymark-hostile-'))
      const model = await startHostileModel(rounds(30, 300), random)
      const config = { baseUrl: model.url, apiKey: 'sk-hostile', modelTimeoutSeconds: 1, maxModelCalls: 3 }
      const server = await startServerProcess(project, { config })
      const rss = () =>
        Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.process.pid}/status`, 'utf8'))?.[1]) * 1024
      const names = Object.keys(attacks)
      const total = rounds(names.length, 1000)

      async function round(number: number): Promise<void> {
        const name = names[number % names.length] ?? ''
        const { id } = await server.client.createConversation()
        await server.client.sendMessage(id, { content: `ATTACK:${name}:` })
        let last: AnyFrame | undefined
        await expect
          .poll(
            async () => {
              const { head_event_number } = await server.client.conversation(id)
              last = (await server.client.events(id, { before: head_event_number + 1, limit: 1 })).items.at(
                -1,
              ) as AnyFrame
              return last?.kind
            },
            { timeout: 120_000, interval: 200 },
          )
          .toMatch(/^(final|error)$/)
        const { error } = last as Frame<'error'>
        if (last?.kind === 'error') expect({ name, ...error }).toMatchObject({ source: 'provider' })
        expect(JSON.stringify(last).length, name).toBeLessThan(20_000)
        expect(JSON.stringify(last)).not.toContain('sk-hostile')
        await server.client.deleteConversation(id)
      }

      await round(0)
      const before = rss()
      const health = watchHealth(server.url)
      let next = 0
      let most = 0
      const work = async () => {
        while (next < total) {
          await round(next++)
          most = Math.max(most, rss() - before)
        }
      }
      await Promise.all(Array.from({ length: 4 }, work))
      const slowest = await health.slowest()
      console.log(
        `${total} rounds: slowest /health ${slowest.toFixed(0)} ms, memory +${(most / MEGABYTE).toFixed(0)} MB at most`,
      )
      await server.kill()
      await model.close()
      await rm(project, { recursive: true, force: true })
      // The strict limits apply to a quiet machine with the full number of rounds.
      expect(slowest).toBeLessThan(rounds(10_000, 1000))
      expect(most).toBeLessThan(rounds(500, 200) * MEGABYTE)
    },
    rounds(240_000, 3_600_000),
  )
})

const mcpAttacks = [
  'exits at once',
  'prints nonsense',
  'an endless line',
  'never initializes',
  'a flood of notifications',
  'a flood of requests',
  'never lists',
  'endless cursors',
  'too many tools',
  'a huge description',
  'wrong shapes',
  'never answers',
  'a huge result',
  'a deep result',
  'exits during a call',
]

describe('a hostile MCP server', () => {
  it.each(mcpAttacks)(
    '[T10] %s: limits its tools, ends its calls and stops its process',
    async (attack) => {
      const before = process.memoryUsage().rss
      for (let i = 0; i < rounds(1, 25); i++) {
        const errors: string[] = []
        const mcp = createMcpTools({
          servers: { x: { command: process.execPath, args: [program, attack, '100'] } },
          root: tmpdir(),
          environment: { PATH: process.env.PATH ?? '' },
          sandbox: null,
          log: { error: (details, message) => errors.push(`${message} ${JSON.stringify(details)}`) },
          waits: { connectMs: 1500, listMs: 2500, callMs: 1500 },
        })
        const tools = await mcp.tools()
        expect(tools.length).toBeLessThanOrEqual(200)
        for (const tool of tools) expect(JSON.stringify(tool).length).toBeLessThan(50_000)
        const call = {
          tenant: 't',
          conversationId: 'conv_x' as const,
          show() {},
          async confirm() {},
          grant: { network: false, outside: false },
        }
        const [tool] = tools
        if (tool) {
          const outcome = await tool
            .run({}, { ...call, signal: new AbortController().signal })
            .catch((error: unknown) => ({ output: (error as Error).message }))
          expect(JSON.stringify(outcome).length).toBeLessThan(5 * MEGABYTE)
          if (
            attack !== 'a huge result' &&
            attack !== 'a deep result' &&
            !String(outcome.output).includes('fine')
          ) {
            expect(outcome.output).toContain('The tool server x failed')
          }
        }
        await mcp.close()
      }
      expect(process.memoryUsage().rss - before).toBeLessThan(400 * MEGABYTE)
    },
    300_000,
  )
})
