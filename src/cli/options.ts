import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Command, Option } from 'commander'
import { type Config, projectFolder, readConfig, settings } from '../config.ts'
import { projectOf } from '../data-dir.ts'
import { untrustedPart } from '../trust.ts'
import { CommandError } from './output.ts'

type SettingName = keyof typeof settings

/** Settings that locate the store, for commands that open it directly. */
export const storeSettings = [
  'project',
  'dataDir',
  'databaseUrl',
  'blobs',
  's3Endpoint',
  's3Region',
] as const satisfies SettingName[]

/** Creates a command with the flags of these settings; their help comes from the settings table. */
export function commandWith(name: string, names: readonly SettingName[]): Command {
  const command = new Command(name)
  for (const setting of names) {
    const { flag, about, variable } = settings[setting]
    if (flag) command.addOption(new Option(flag, `${about} (${variable})`))
  }
  return command
}

export function configOf(flags: Record<string, unknown>): Config {
  return readConfig(flags)
}

/** For commands that need an existing project: like git, searches the parent folders for it. */
export function configAbove(flags: Record<string, unknown>): Config {
  const config = readConfig(flags)
  if (existsSync(config.dataDir) || flags.project !== undefined || flags.dataDir !== undefined) return config
  const { stateDir } = config
  for (let folder = config.project; dirname(folder) !== folder; folder = dirname(folder)) {
    // A fork's working copy is in its project's data folder.
    const project = dirname(folder) === join(stateDir, 'projects') ? projectOf(folder) : folder
    if (project !== null && existsSync(projectFolder(stateDir, project)))
      return readConfig({ ...flags, project })
  }
  return config
}

/** For commands that open the store directly: refuses a data folder or settings that are not trusted. */
export async function assertTrusted(config: Config): Promise<void> {
  const part = await untrustedPart(config)
  if (part !== null)
    throw new CommandError(`${part}; review it, and if you trust it run once: waymark serve --trust`)
}
