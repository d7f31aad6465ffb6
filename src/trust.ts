import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { cp, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Config, projectFolder } from './config.ts'
import { projectOf, readServerNote } from './data-dir.ts'
import { isTracked } from './git/status.ts'
import { isInside, realOf, safePath } from './sandbox/paths.ts'

/**
 * Records what the user has agreed to on this machine. A project may come from anywhere, so its settings that loosen a
 * rule, and a data folder that already exists, need the user's consent first. Consent is stored in the user's own
 * folder, by path and content: nothing in a project can vouch for itself. The default data folder is outside the
 * project and needs no consent.
 */

const TRUSTED_FILE = 'trusted'
const ID_FILE = 'id'
export class InUseElsewhere extends Error {}

/** The data folder of earlier versions, inside the project. */
const OLD_DATA_DIR = '.waymark'

/** Describes the first thing that the user has not agreed to; null if there is none. */
export async function untrustedPart(config: Config): Promise<string | null> {
  const { untrusted, dataDir, privateDir, project } = config
  const lines = await trustedLines(config.userDir)
  if (untrusted && !lines.includes(settingsLine(untrusted))) {
    return `${untrusted.file} sets ${untrusted.settings.join(', ')}`
  }
  if (dataDir === privateDir || isAbsentOrEmpty(dataDir)) return null
  const line = await dataLine(dataDir)
  if (line === null || !lines.includes(line)) return `${dataDir} was not created by you on this machine`
  return await plantedIn(project, dataDir, config)
}

/** Content of a data folder inside the project that a pull may have added, although the folder itself is ours. */
async function plantedIn(project: string, dataDir: string, config: Config): Promise<string | null> {
  if (!isInside(realOf(project), realOf(dataDir))) return null
  const options = {
    path: safePath(config.commandEnvironment.PATH ?? '/usr/bin:/bin', project),
    scratch: join(config.privateDir, 'tmp'),
  }
  if (await isTracked(project, dataDir, options))
    return `${dataDir} contains files from the project's repository`
  const foreign = readdirSync(dataDir).find((name) => !OWN_NAMES.test(name))
  return foreign === undefined ? null : `${join(dataDir, foreign)} was not made by Waymark`
}

const OWN_NAMES =
  /^(\.gitignore|id|workspace-id|store|conversations|workspaces|blobs|tmp|rescued|home|(waymark|manifest)\.db(-wal|-shm|-journal)?|(server|workspace(-conv_[0-9a-z]{26})?)\.lock(-journal|-wal|-shm)?)$/

/** Records consent to the current settings and the data folder. */
export async function trust(config: Config): Promise<void> {
  if (config.untrusted) await addLine(config.userDir, settingsLine(config.untrusted))
  await trustDataDir(config)
}

/** Records that the user made this data folder. */
export async function trustDataDir(config: Config): Promise<void> {
  if (config.dataDir === config.privateDir) return
  const path = join(config.dataDir, ID_FILE)
  if (!existsSync(path)) await writeFile(path, `${randomBytes(16).toString('hex')}\n`, { mode: 0o600 })
  const line = await dataLine(config.dataDir)
  if (line !== null) await addLine(config.userDir, line)
}

/**
 * Moves the data folder of an earlier version out of the project, if it was created here and the project can't have
 * added anything to it. The token is not moved: the server creates a new one. Returns the old path, or null.
 */
export async function moveOldDataDir(config: Config): Promise<string | null> {
  const { project, privateDir, dataDir } = config
  const old = join(project, OLD_DATA_DIR)
  if (dataDir !== privateDir || !isAbsentOrEmpty(privateDir) || isAbsentOrEmpty(old)) return null
  if (!lstatSync(old).isDirectory()) return null
  const line = await dataLine(old)
  if (line === null || !(await trustedLines(config.userDir)).includes(line)) return null
  const scratch = join(config.stateDir, 'tmp')
  const isForeign = await isTracked(project, old, {
    path: safePath(config.commandEnvironment.PATH ?? '/usr/bin:/bin', project),
    scratch,
  })
  if (isForeign) return null
  const note = await readServerNote(old)
  if (note)
    throw new InUseElsewhere(`a server of an earlier version is running at ${note.url}; stop it first`)
  await moveFolder(old, privateDir)
  for (const name of ['token', 'token-id', 'server.json']) await rm(join(privateDir, name), { force: true })
  return old
}

/** Data folders whose projects no longer exist at their recorded paths. */
export function lostProjects({ stateDir }: Config): { project: string; folder: string }[] {
  const folder = join(stateDir, 'projects')
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names.flatMap((name) => {
    const project = projectOf(join(folder, name))
    return project === null || existsSync(project) ? [] : [{ project, folder: join(folder, name) }]
  })
}

/** Moves the history of a moved project to the folder of its new path. */
export async function adoptMoved(config: Config, from: string): Promise<void> {
  const lost = lostProjects(config).find(({ project }) => project === from)
  if (!lost) throw new Error(`no history found of a project that was moved from ${from}`)
  const target = projectFolder(config.stateDir, config.project)
  if (!isAbsentOrEmpty(target)) throw new Error(`${config.project} already has a history in ${target}`)
  await moveFolder(lost.folder, target)
}

/** Renames the folder, or copies it across file systems; removes the source last. */
async function moveFolder(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  // Fails unless the folder is empty.
  if (existsSync(to)) await rmdir(to)
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    const copy = `${to}.${randomBytes(4).toString('hex')}`
    await cp(from, copy, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true })
    await rename(copy, to)
    await rm(from, { recursive: true })
  }
}

function isAbsentOrEmpty(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  return !found || (found.isDirectory() && readdirSync(folder).length === 0)
}

/** Null for a folder without an id of ours. */
async function dataLine(dataDir: string): Promise<string | null> {
  const id = (await readFile(join(dataDir, ID_FILE), 'utf8').catch(emptyIfMissing)).trim()
  return /^[0-9a-f]{32}$/.test(id) ? `data ${id} ${JSON.stringify(dataDir)}` : null
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

/** False for files that no longer exist; their lines are dropped. */
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
