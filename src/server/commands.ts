import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type CommandOptions, runToEnd } from '../agent/tools/run-command.ts'
import type { Config } from '../config.ts'
import { CommitRefused } from '../git/commit-refused.ts'
import type { RunHook } from '../git/hooks.ts'
import type { FoundSandbox, Place } from '../sandbox/confined-place.ts'
import { isInside, realOf, safePath } from '../sandbox/paths.ts'
import { NotConfinable } from '../sandbox/repository-guard.ts'
import { findSandbox, isTooWide } from '../sandbox/sandbox.ts'
import { tryOut } from '../sandbox/start.ts'

/** The time limit for all hooks of one commit; clients time out after five minutes. */
const HOOKS_MS = 4 * 60 * 1000
const MAX_OUTPUT = 64 * 1024
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'

/** Options for commands in a folder; `refusal` is set if a sandbox is required and there is none. */
export function commandOptions(
  config: Config,
  found: FoundSandbox,
  root: string,
  environment: Readonly<Record<string, string>>,
): CommandOptions {
  const sandbox = confinementOf(config, found, root)
  const isRefused = config.sandbox === 'required' && !sandbox
  return {
    refusal: isRefused
      ? `commands require a sandbox (--sandbox required), but there is none: ${found.why ?? ''}`
      : null,
    root,
    environment: { ...config.commandEnvironment, ...environment },
    sandbox,
    network: config.commandNetwork,
  }
}

/** Makes a runner for the hooks of one commit, which share one deadline. */
export function createHookRunners(config: Config): () => RunHook {
  return () => {
    const deadline = performance.now() + HOOKS_MS
    return async ({ argv, cwd, variables }) => {
      const root = realOf(config.project)
      const options = commandOptions(config, await sandboxHere(config), root, variables)
      if (options.refusal) throw new CommitRefused(`Hooks can't run: ${options.refusal}.`)
      const needed = [cwd, argv[0] ?? '', variables.GIT_INDEX_FILE ?? cwd].map((path) => realOf(path))
      const hidden = options.sandbox && needed.find((path) => !isInside(root, path))
      if (hidden)
        throw new CommitRefused(
          `Hooks can't run: the sandbox has no access to ${hidden}. Commit without hooks.`,
        )
      return await runHook(options, `cd ${quoted(cwd)} && exec ${argv.map(quoted).join(' ')}`, deadline)
    }
  }
}

async function runHook(options: CommandOptions, command: string, deadline: number): ReturnType<RunHook> {
  let output = ''
  const { code, killedBy, isTimedOut } = await runToEnd(
    options,
    command,
    { outside: false, network: false },
    {
      milliseconds: Math.max(0, deadline - performance.now()),
      signal: new AbortController().signal,
      onOutput: (chunk) => {
        output = (output + chunk.toString()).slice(-MAX_OUTPUT)
      },
    },
  ).catch((error: unknown) => {
    if (!(error instanceof NotConfinable)) throw error
    throw new CommitRefused(`Hooks can't run in the sandbox: ${error.message}.`)
  })
  return { code: isTimedOut || killedBy !== null ? null : code, output }
}

/** For the shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** The sandbox that commands run in, or why there is none. */
export async function sandboxHere(config: Config): Promise<FoundSandbox> {
  if (config.sandbox === 'off') return { sandbox: null, why: 'disabled by --sandbox off' }
  const found = await findSandbox({ path: programPath(config), tryOut })
  const place = placeIn(config, realOf(config.project))
  return found.sandbox && isTooWide(place)
    ? { sandbox: null, why: 'the project contains your home folder' }
    : found
}

/** How programs in this folder are confined; null if they can't be. */
export function confinementOf(config: Config, { sandbox }: FoundSandbox, workspace: string) {
  const place = placeIn(config, workspace)
  return sandbox && !isTooWide(place) ? { sandbox, place } : null
}

/** Null if there is no home folder that could be replaced: a service's may be `/`. */
function homeIn(home: string): string | null {
  const real = realOf(home)
  return real !== '/' && existsSync(real) ? real : null
}

function placeIn(config: Config, workspace: string): Place {
  return {
    workspace,
    home: homeIn(config.home),
    privateHome: join(realOf(config.dataDir), 'home'),
    hidden: [config.dataDir, config.stateDir, config.userDir].map(realOf),
    path: config.commandEnvironment.PATH ?? '',
  }
}

/** The search path for our own programs, without any folder inside the project. */
export function programPath(config: Pick<Config, 'commandEnvironment' | 'project'>): string {
  return safePath(config.commandEnvironment.PATH ?? USUAL_PATH, config.project)
}
