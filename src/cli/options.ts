import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Command, Option } from 'commander'
import { type Config, readConfig, settings } from '../config.ts'

type SettingName = keyof typeof settings

/** A command with the flags of these settings; what the table says of them is their help. */
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

/** For commands that use what is there: the project may be a folder above this one, as with git. */
export function configAbove(flags: Record<string, unknown>): Config {
  const config = readConfig(flags)
  if (existsSync(config.dataDir) || flags.project !== undefined || flags.dataDir !== undefined) return config
  for (let folder = config.project; dirname(folder) !== folder; folder = dirname(folder)) {
    if (existsSync(join(folder, '.waymark', 'token'))) return readConfig({ ...flags, project: folder })
  }
  return config
}
