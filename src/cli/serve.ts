import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { prepareDataDir, preparePrivateDir, readServerNote } from '../data-dir.ts'
import { createProjects, type Projects } from '../server/projects.ts'
import { InUse, type RunningServer, startServer } from '../server/server.ts'
import { adoptMoved, lostProjects, moveOldDataDir, trust, untrustedPart } from '../trust.ts'
import { collect } from './arguments.ts'
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
    .option('--also <dir>', 'serve this project too, at the next port; repeatable', collect)
    .option('--open', 'open the page in the browser')
    .addHelpText(
      'after',
      `
Examples:
  waymark serve --open
  waymark serve --project ../shop --port 5000
  waymark serve --also ../shop --also ../docs    # one process, a switcher in the page
  waymark serve --tools run_command=allow
  OPENAI_API_KEY=… waymark serve --model gpt-5.5
  waymark serve --base-url http://127.0.0.1:11434/v1 --model qwen3-coder
  waymark serve --database-url postgres://localhost/waymark`,
    )
    .action(serve)
}

async function serve(flags: Record<string, unknown>): Promise<void> {
  const config = configOf(flags)
  const more = otherProjects(config, flags)
  await checkTrust([config, ...more], flags.trust === true)
  for (const one of [config, ...more]) await prepare(one, flags)
  // Keep serving when the reader of stdout closes the pipe.
  process.stdout.removeAllListeners('error').on('error', () => {})
  const projects = createProjects()
  const servers: RunningServer[] = []
  const closeAll = async () => void (await Promise.all(servers.map((one) => one.close())))
  const server = await start(config, projects)
  servers.push(server)
  try {
    for (const one of more) servers.push(await start(one, projects))
  } catch (error) {
    await closeAll()
    throw error
  }
  console.log(`${bold('Waymark')} serves ${config.project}

  Open     ${server.loginUrl}
           ${dim('(single-use sign-in link)')}
  API      ${server.url}/api/v1   ${dim(`(token: ${config.token ? 'WAYMARK_TOKEN' : `${config.privateDir}/token`})`)}
  Model    ${modelText(server.model)}
  Commands ${sandboxText(server.sandbox)}
  Stop     Ctrl-C`)
  for (const [index, { project }] of more.entries()) {
    console.log(`\n${bold('Also')}     ${project}\n  Open     ${servers[index + 1]?.loginUrl}`)
  }
  void server.modelProblem.then((problem) => {
    if (problem !== null) console.log(`\n  ${bold('Model problem')}  ${printable(problem)}`)
  })
  if (flags.open === true && !(await openBrowser(server.loginUrl, config.privateDir))) {
    console.log(dim('           (could not open a browser; open the link yourself)'))
  }
  await stopSignal()
  console.log('Stopping …')
  await closeAll()
}

async function prepare(config: Config, flags: Record<string, unknown>): Promise<void> {
  await bringHistory(config, flags.movedFrom)
  await preparePrivateDir(config.privateDir, config.project)
  await prepareDataDir(config.dataDir)
  // Confirmed with --trust, or new.
  await trust(config)
}

async function start(config: Config, projects: Projects): Promise<RunningServer> {
  return await startServer(config, projects).catch(async (error: unknown) => {
    if (isPortInUse(error)) {
      throw new CommandError(`port ${config.port} is in use; choose another with --port`)
    }
    if (!(error instanceof InUse)) throw error
    const note = await readServerNote(config.privateDir)
    const where = note ? ` at ${note.url} (process ${note.pid})` : ''
    throw new CommandError(`a server for ${config.project} is already running${where}`)
  })
}

/** The projects of `--also`, each with its own settings and the next free place after the first one's port. */
function otherProjects(first: Config, flags: Record<string, unknown>): Config[] {
  const folders = (flags.also ?? []) as string[]
  if (folders.length === 0) return []
  for (const name of ['dataDir', 'workspaceId', 'movedFrom']) {
    const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    if (flags[name] !== undefined) throw new CommandError(`--also can't be combined with --${flag}`)
  }
  // In one database, a token would open the conversations of all projects.
  if (first.databaseUrl !== null) throw new CommandError("--also can't be combined with a shared database")
  const configs: Config[] = []
  for (const [index, folder] of folders.entries()) {
    const port = first.port === 0 ? 0 : first.port + index + 1
    // Each project has its own token, even if the first one's is set for this process.
    const config = { ...configOf({ ...flags, project: folder, port }), token: null }
    if ([first, ...configs].some((one) => one.dataDir === config.dataDir))
      throw new CommandError(`${config.project} is named twice`)
    configs.push(config)
  }
  return configs
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
async function checkTrust(configs: readonly Config[], isGiven: boolean): Promise<void> {
  if (isGiven) return
  const parts: string[] = []
  for (const config of configs) parts.push(...[(await untrustedPart(config)) ?? []].flat())
  if (parts.length > 0)
    throw new CommandError(`${parts.join('; ')}; review it, and if you trust it add --trust once`)
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
