import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { basename } from 'node:path'
import type { Command } from 'commander'
import { routingOf } from '../agent-routing.ts'
import { type Client, createClient } from '../client/index.ts'
import { serverOf } from './connect.ts'
import { commandWith, configAbove } from './options.ts'
import { CommandError, dim } from './output.ts'

/** How often to renew the terminal; this also registers it again after a restart of the server. */
const ALIVE_MS = 2000
/** How long the server may take to end the recording. */
const END_MS = 5000

export function runCommand(): Command {
  return commandWith('run', ['project', 'dataDir', 'url'])
    .description('Run an agent in this terminal and record what it does, including its model requests')
    .argument('<command...>', 'the agent and its arguments, after --')
    .addHelpText(
      'after',
      `
The agent's model requests pass through the running server, unchanged, and each of its sessions becomes a conversation: with
transcript, timeline, files and the exact requests. Restore and fork work as usual. Waymark routes Codex, Claude Code and
opencode through their own settings, and other programs through OPENAI_BASE_URL and ANTHROPIC_BASE_URL. Your login is
forwarded and never stored.

Examples:
  waymark run -- codex
  waymark run -- claude --resume
  waymark run -- opencode
  waymark run -- codex exec "fix the tests"`,
    )
    .action(async ([program = '', ...args]: string[], flags: Record<string, unknown>) => {
      const server = await serverOf(flags)
      const client = createClient(server)
      const { gatewayUpstreams } = configAbove(flags)
      const address = server.url.replace(/\/+$/, '')
      const terminal = { id: randomBytes(12).toString('hex'), key: randomBytes(32).toString('base64url') }
      const routing = routingOf(program, process.env, gatewayUpstreams)
      const { key } = terminal
      const agent = basename(program).slice(0, 60)
      const keep = () => client.keepTerminal(terminal.id, { key, agent, upstreams: routing.upstreams })
      await keep()
      const routed = routing.through((name) => `${address}/gateway/${key}/${name}`)
      const child = spawn(program, [...routed.args, ...args], {
        stdio: 'inherit',
        env: { ...withoutOurs(process.env), ...routed.environment },
      })
      // The server may be down for a while: the agent goes on meanwhile.
      const alive = setInterval(() => void keep().catch(() => {}), ALIVE_MS)
      let code: number
      try {
        code = await exitOf(child, program)
      } finally {
        clearInterval(alive)
        await sayEnd(client, terminal.id, address)
      }
      process.exit(code)
    })
}

/** Our own secrets are never an agent's. */
function withoutOurs(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('WAYMARK_')))
}

async function sayEnd(client: Client, id: string, address: string): Promise<void> {
  const late = new Promise<null>((resolve) => setTimeout(resolve, END_MS, null).unref())
  const ended = await Promise.race([client.endTerminal(id), late]).catch(() => null)
  if (!ended) return console.error(dim('waymark: the server did not confirm the end of the recording'))
  for (const one of ended.conversations) console.error(dim(`waymark: recorded as ${address}/c/${one}`))
}

/** The exit code of the agent, as a shell would report it. Signals of the terminal reach it by themselves. */
function exitOf(child: ChildProcess, program: string): Promise<number> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.on(signal, () => {})
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(new CommandError(error.code === 'ENOENT' ? `no program named ${program}` : error.message)),
    )
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)))
  })
}
