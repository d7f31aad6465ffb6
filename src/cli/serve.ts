import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { prepareDataDir, preparePrivateDir, readServerNote } from '../data-dir.ts'
import { InUse, type RunningServer, startServer } from '../server/server.ts'
import { adoptMoved, lostProjects, moveOldDataDir, trust, untrustedPart } from '../trust.ts'
import { openBrowser } from './open-browser.ts'
import { commandWith, configOf } from './options.ts'
import { bold, CommandError, dim, printable } from './output.ts'

export function serveCommand(): Command {
  return commandWith('serve', [
    'project',
    'port',
    'host',
    'allowedHosts',
    'dataDir',
    'databaseUrl',
    'blobs',
    's3Endpoint',
    's3Region',
    'model',
    'baseUrl',
    'protocol',
    'workspaceId',
    'include',
    'exclude',
    'maxFileMb',
    'watch',
    'tools',
    'gateway',
    'gatewayOpenaiUrl',
    'gatewayAnthropicUrl',
    'sandbox',
    'commandNetwork',
    'commandEnv',
    'modelTimeoutSeconds',
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
    .option('--trust', 'trust the current waymark.config.json, and a data folder created elsewhere')
    .option('--moved-from <dir>', 'continue the history of the project that was in this folder')
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
  await bringHistory(config, flags.movedFrom)
  await preparePrivateDir(config.privateDir, config.project)
  await prepareDataDir(config.dataDir)
  // Confirmed with --trust, or new.
  await trust(config)
  // Keep serving when the reader of stdout closes the pipe.
  process.stdout.removeAllListeners('error').on('error', () => {})
  const server = await startServer(config).catch(async (error: unknown) => {
    if (isPortInUse(error)) {
      throw new CommandError(`port ${config.port} is in use; choose another with --port`)
    }
    if (!(error instanceof InUse)) throw error
    const note = await readServerNote(config.privateDir)
    const where = note ? ` at ${note.url} (process ${note.pid})` : ''
    throw new CommandError(`a server for this project is already running${where}`)
  })
  console.log(`${bold('Waymark')} serves ${config.project}

  Open     ${server.loginUrl}
           ${dim('(single-use sign-in link)')}
  API      ${server.url}/api/v1   ${dim(`(token: ${config.token ? 'WAYMARK_TOKEN' : `${config.privateDir}/token`})`)}
  Model    ${modelText(server.model)}
  Commands ${sandboxText(server.sandbox)}
  Stop     Ctrl-C`)
  void server.modelProblem.then((problem) => {
    if (problem !== null) console.log(`\n  ${bold('Model problem')}  ${printable(problem)}`)
  })
  if (flags.open === true && !(await openBrowser(server.loginUrl, config.privateDir))) {
    console.log(dim('           (could not open a browser; open the link yourself)'))
  }
  await stopSignal()
  console.log('Stopping …')
  await server.close()
}

/** Adopts existing history: from the project folder, where earlier versions kept it, or from the project's former path. */
async function bringHistory(config: Config, movedFrom: unknown): Promise<void> {
  const old = await moveOldDataDir(config)
  if (old !== null) return console.log(`Moved ${old} to ${config.privateDir}; the token is new.`)
  if (typeof movedFrom === 'string') {
    const from = resolve(movedFrom)
    return await adoptMoved(config, from).catch((error: unknown) => {
      throw new CommandError((error as Error).message)
    })
  }
  if (existsSync(config.dataDir)) return
  if (existsSync(join(config.project, '.waymark')))
    console.log(dim('Ignoring the .waymark folder in this project: it was not created here.'))
  const lost = lostProjects(config).filter(({ project }) => basename(project) === basename(config.project))
  for (const { project } of lost.slice(0, 3))
    console.log(
      dim(`If this project was in ${project} before, continue its history with --moved-from ${project}`),
    )
}

/** Project settings that widen what the agent or the network may do need the user's consent first. */
async function checkTrust(config: Config, isGiven: boolean): Promise<void> {
  const part = isGiven ? null : await untrustedPart(config)
  if (part === null) return
  throw new CommandError(`${part}; review it, and if you trust it add --trust once`)
}

function modelText({ name, url, isDemo }: RunningServer['model']): string {
  if (isDemo)
    return `${bold('the demo model')} ${dim('(scripted; set OPENAI_API_KEY, ANTHROPIC_API_KEY or --base-url for a real one)')}`
  return `${name}${url === null ? '' : dim(` at ${url}`)}`
}

function sandboxText({ name, why, isRequired }: RunningServer['sandbox']): string {
  if (name !== null) return `run in a sandbox ${dim(`(${name}; no network access unless you grant it)`)}`
  if (isRequired) return `are refused ${dim(`(--sandbox required, but none is available: ${why})`)}`
  return `run with your permissions ${dim(`(no sandbox: ${why}; see \`waymark doctor\`)`)}`
}

function isPortInUse(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}

/** npm forwards a Ctrl-C that the terminal has already delivered; a signal within this time is that duplicate. */
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
