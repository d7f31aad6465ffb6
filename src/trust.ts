import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from './config.ts'

/**
 * What a project brings along may be anybody's: settings that let the agent or the network do more, and a data folder
 * with messages and answers in it. Neither counts until the person has said so. That is noted in their own folder, by
 * path and content: nothing that comes with a project can vouch for itself.
 */

const TRUSTED_FILE = 'trusted'
const ID_FILE = 'id'

/** What has not been agreed to, in words; null when there is nothing. */
export async function untrustedPart(config: Config): Promise<string | null> {
  const lines = await trustedLines(config.userDir)
  const { untrusted } = config
  if (untrusted && !lines.includes(settingsLine(untrusted))) {
    return `${untrusted.file} sets ${untrusted.settings.join(', ')}`
  }
  const line = await dataLine(config.dataDir)
  if (line !== null && !lines.includes(line)) return `${config.dataDir} was not made by you here`
  return null
}

/** Agrees to the settings as they are now, and to the data folder. */
export async function trust(config: Config): Promise<void> {
  if (config.untrusted) await addLine(config.userDir, settingsLine(config.untrusted))
  await trustDataDir(config)
}

/** Notes a data folder as the person's own; one that is new has just been made by them. */
export async function trustDataDir({ dataDir, userDir }: Config): Promise<void> {
  const path = join(dataDir, ID_FILE)
  if (!existsSync(path)) await writeFile(path, `${randomBytes(16).toString('hex')}\n`, { mode: 0o600 })
  const line = await dataLine(dataDir)
  if (line !== null) await addLine(userDir, line)
}

/** Null when there is no data yet that could do anything. */
async function dataLine(dataDir: string): Promise<string | null> {
  if (!existsSync(join(dataDir, 'waymark.db')) && !existsSync(join(dataDir, ID_FILE))) return null
  const id = (await readFile(join(dataDir, ID_FILE), 'utf8').catch(emptyIfMissing)).trim()
  return `data ${id} ${JSON.stringify(dataDir)}`
}

function settingsLine({ file, sha256 }: NonNullable<Config['untrusted']>): string {
  return `settings ${sha256} ${JSON.stringify(file)}`
}

async function addLine(userDir: string, line: string): Promise<void> {
  const lines = await trustedLines(userDir)
  if (lines.includes(line)) return
  await mkdir(userDir, { recursive: true, mode: 0o700 })
  const present = [...lines.filter(isThere), line]
  await writeFile(join(userDir, TRUSTED_FILE), `${present.join('\n')}\n`, { mode: 0o600 })
}

/** What has gone need not be remembered. */
function isThere(line: string): boolean {
  return existsSync(JSON.parse(line.slice(line.indexOf('"'))) as string)
}

async function trustedLines(userDir: string): Promise<string[]> {
  const text = await readFile(join(userDir, TRUSTED_FILE), 'utf8').catch(emptyIfMissing)
  return text.split('\n').filter(Boolean)
}

function emptyIfMissing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return ''
  throw error
}
