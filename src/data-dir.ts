import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from './protocol/ids.ts'

/**
 * The files in the data folder and the private folder, except the store. Both are the same folder unless `dataDir`
 * names another; the token and the server's address are always in the private folder, outside the project.
 */

const OWN_GITIGNORE = '*\n'
const TOKEN_FILE = 'token'
const TOKEN_ID_FILE = 'token-id'
const WORKSPACE_ID_FILE = 'workspace-id'
const SERVER_FILE = 'server.json'
const PROJECT_FILE = 'project'

export interface ServerNote {
  url: string
  pid: number
}

export async function prepareDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  // Don't touch a folder that is used for something else: --data-dir may name it by mistake.
  const ignored = await readFile(join(dataDir, '.gitignore'), 'utf8').catch(nullIfMissing)
  const entries = await readdir(dataDir)
  if (ignored !== OWN_GITIGNORE && entries.length > 0) return
  await chmod(dataDir, 0o700)
  await writeFile(join(dataDir, '.gitignore'), OWN_GITIGNORE)
}

/** Creates the private folder and records the path of its project. */
export async function preparePrivateDir(privateDir: string, project: string): Promise<void> {
  await prepareDataDir(privateDir)
  const path = join(privateDir, PROJECT_FILE)
  const known = await readFile(path, 'utf8').catch(nullIfMissing)
  if (known !== `${project}\n`) await writePrivately(path, `${project}\n`)
}

/** The project that a private folder belongs to, or null. */
export function projectOf(privateDir: string): string | null {
  const path = join(privateDir, PROJECT_FILE)
  return existsSync(path) ? readFileSync(path, 'utf8').trim() || null : null
}

export async function readToken(privateDir: string): Promise<string | null> {
  const text = await readFile(join(privateDir, TOKEN_FILE), 'utf8').catch(nullIfMissing)
  return text?.trim() || null
}

export async function readOrMakeToken(privateDir: string): Promise<string> {
  const known = await readToken(privateDir)
  if (known) return known
  const token = randomBytes(32).toString('base64url')
  await writePrivately(join(privateDir, TOKEN_FILE), `${token}\n`)
  return token
}

/** The id under which this folder's token is registered; created once. */
export async function readOrMakeTokenId(privateDir: string): Promise<string> {
  const path = join(privateDir, TOKEN_ID_FILE)
  const known = (await readFile(path, 'utf8').catch(nullIfMissing))?.trim()
  if (known) return known
  const id = newId('tok')
  await writePrivately(path, `${id}\n`)
  return id
}

const WORKSPACE_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/

/** The workspace's id. It stays the same when the project is moved or renamed. */
export async function readOrMakeWorkspaceId(
  dataDir: string,
  config: { workspaceId: string; hasWorkspaceId: boolean },
): Promise<string> {
  if (config.hasWorkspaceId) return config.workspaceId
  const path = join(dataDir, WORKSPACE_ID_FILE)
  const known = (await readFile(path, 'utf8').catch(nullIfMissing))?.trim()
  if (known !== undefined && WORKSPACE_ID.test(known)) return known
  await writePrivately(path, `${config.workspaceId}\n`)
  return config.workspaceId
}

/** Publishes this server's address for the commands; the returned function withdraws it. */
export async function announceServer(privateDir: string, url: string): Promise<() => Promise<void>> {
  const path = join(privateDir, SERVER_FILE)
  await writePrivately(path, `${JSON.stringify({ url, pid: process.pid } satisfies ServerNote)}\n`)
  return async () => {
    const note = await readServerNote(privateDir)
    if (note?.pid === process.pid) await rm(path, { force: true })
  }
}

export async function readServerNote(privateDir: string): Promise<ServerNote | null> {
  const text = await readFile(join(privateDir, SERVER_FILE), 'utf8').catch(nullIfMissing)
  if (text === null) return null
  const note = parseNote(text)
  if (!note) return null
  return note.pid === process.pid || isAlive(note.pid) ? note : null
}

/** Null for anything that `announceServer` did not write. */
function parseNote(text: string): ServerNote | null {
  try {
    const { url, pid } = JSON.parse(text) as Partial<ServerNote>
    return typeof url === 'string' && typeof pid === 'number' ? { url, pid } : null
  } catch {
    return null
  }
}

async function writePrivately(path: string, text: string): Promise<void> {
  const aside = `${path}.${randomBytes(4).toString('hex')}`
  await writeFile(aside, text, { mode: 0o600 })
  await chmod(aside, 0o600)
  await rename(aside, path)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

/**
 * Records that a database uses the blobs in this folder. The returned function reports whether it is the only one: a
 * database that does not know another's frames must not delete that one's blobs.
 */
export function claimBlobs(dataDir: string, storeId: string): () => boolean {
  const path = join(dataDir, 'blobs', '.stores')
  const known = () => new Set(existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [])
  const stores = known()
  // A SQLite store from before this record existed.
  if (storeId !== SQLITE && existsSync(join(dataDir, 'waymark.db'))) stores.add(SQLITE)
  stores.add(storeId)
  if (stores.size !== known().size) {
    mkdirSync(join(dataDir, 'blobs'), { recursive: true })
    writeFileSync(path, `${[...stores].join('\n')}\n`)
  }
  return () => known().size === 1
}

/** The id of the SQLite store in the data folder. */
export const SQLITE = 'sqlite'
