import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { prepareDataDir, readServerNote } from '../data-dir.ts'
import { InUse, type RunningServer, startServer } from '../main.ts'
import { trust, untrustedPart } from '../trust.ts'
import { openBrowser } from './open-browser.ts'
import { commandWith, configOf } from './options.ts'
import { bold, CommandError, dim } from './output.ts'

export function serveCommand(): Command {
  return commandWith('serve', [
    'project',
    'port',
    'host',
    'allowedHosts',
    'dataDir',
    'databaseUrl',
    'model',
    'baseUrl',
    'workspaceId',
    'include',
    'exclude',
    'maxFileMb',
    'watch',
    'tools',
    'commandEnv',
    'store',
    'embedder',
    'retentionHours',
    'gcMinutes',
    'maxModelCalls',
    'maxRuns',
    'leaseSeconds',
    'logLevel',
  ])
    .description('Serve the project in this folder')
    .option(
      '--trust',
      'let waymark.config.json, as it is now, start tool servers and loosen what needs asking',
    )
    .option('--open', 'open the page in the browser')
    .addHelpText(
      'after',
      `
Examples:
  waymark serve --open
  waymark serve --project ../shop --port 5000
  waymark serve --tools run_command=allow
  OPENAI_API_KEY=… waymark serve --model gpt-5.5
  waymark serve --base-url http://127.0.0.1:11434/v1 --model qwen3-coder
  waymark serve --database-url postgres://localhost/waymark`,
    )
    .action(serve)
}

async function serve(flags: Record<string, unknown>): Promise<void> {
  const config = configOf(flags)
  await checkTrust(config, flags.trust === true)
  await prepareDataDir(config.dataDir)
  // Whoever comes this far has agreed, or makes the folder just now.
  await trust(config)
  // A server goes on when nobody reads what it prints any more.
  process.stdout.removeAllListeners('error').on('error', () => {})
  const server = await startServer(config).catch(async (error: unknown) => {
    if (isPortInUse(error)) {
      throw new CommandError(`port ${config.port} is in use; choose another with --port`)
    }
    if (!(error instanceof InUse)) throw error
    const note = await readServerNote(config.dataDir)
    const where = note ? ` at ${note.url} (process ${note.pid})` : ''
    throw new CommandError(`a server for this project is already running${where}`)
  })
  console.log(`${bold('Waymark')} serves ${config.project}

  Open     ${server.loginUrl}
           ${dim('(signs one browser in, once)')}
  API      ${server.url}/api/v1   ${dim(`(token: ${config.token ? 'WAYMARK_TOKEN' : `${config.dataDir}/token`})`)}
  Model    ${modelText(server.model)}
  Stop     Ctrl-C`)
  if (flags.open === true && !(await openBrowser(server.loginUrl, config.dataDir))) {
    console.log(dim('           (no browser could be opened; follow the link yourself)'))
  }
  await stopSignal()
  console.log('Stopping …')
  await server.close()
}

/** A project's file may be anybody's: what lets the agent or the network do more is looked at by a person first. */
async function checkTrust(config: Config, isGiven: boolean): Promise<void> {
  const part = isGiven ? null : await untrustedPart(config)
  if (part === null) return
  throw new CommandError(`${part}; look at it, and if you agree add --trust once`)
}

function modelText({ name, url, isDemo }: RunningServer['model']): string {
  if (isDemo)
    return `${bold('the demo model')} ${dim('(a script; set OPENAI_API_KEY or --base-url for a real one)')}`
  return `${name}${url === null ? '' : dim(` at ${url}`)}`
}

function isPortInUse(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}

/** npm passes a Ctrl-C on that the terminal has sent us already; a person who means it again takes longer. */
const SAME_SIGNAL_MS = 1000

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let since: number | null = null
    const onSignal = () => {
      if (since !== null && performance.now() - since > SAME_SIGNAL_MS) process.exit(130)
      since ??= performance.now()
      resolve()
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal)
  })
}
