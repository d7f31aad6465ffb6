import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from './protocol/ids.ts'

/** What lies in the data folder besides the store: its own .gitignore, the token, and where the server is. */

const OWN_GITIGNORE = '*\n'
const TOKEN_FILE = 'token'
const TOKEN_ID_FILE = 'token-id'
const WORKSPACE_ID_FILE = 'workspace-id'
const SERVER_FILE = 'server.json'

export interface ServerNote {
  url: string
  pid: number
}

export async function prepareDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true })
  // Only a folder that is ours, new or with our own file in it: somebody's may have been named by mistake.
  const ignored = await readFile(join(dataDir, '.gitignore'), 'utf8').catch(nullIfMissing)
  const entries = await readdir(dataDir)
  if (ignored !== OWN_GITIGNORE && entries.length > 0) return
  await chmod(dataDir, 0o700)
  await writeFile(join(dataDir, '.gitignore'), OWN_GITIGNORE)
}

export async function readToken(dataDir: string): Promise<string | null> {
  const text = await readFile(join(dataDir, TOKEN_FILE), 'utf8').catch(nullIfMissing)
  return text?.trim() || null
}

export async function readOrMakeToken(dataDir: string): Promise<string> {
  const known = await readToken(dataDir)
  if (known) return known
  const token = randomBytes(32).toString('base64url')
  await writePrivately(join(dataDir, TOKEN_FILE), `${token}\n`)
  return token
}

/** The id under which this folder's token is registered; made once. */
export async function readOrMakeTokenId(dataDir: string): Promise<string> {
  const path = join(dataDir, TOKEN_ID_FILE)
  const known = (await readFile(path, 'utf8').catch(nullIfMissing))?.trim()
  if (known) return known
  const id = newId('tok')
  await writePrivately(path, `${id}\n`)
  return id
}

/** What the workspace is called; it keeps its name when the folder is moved or renamed. */
export async function readOrMakeWorkspaceId(
  dataDir: string,
  config: { workspaceId: string; hasWorkspaceId: boolean },
): Promise<string> {
  if (config.hasWorkspaceId) return config.workspaceId
  const path = join(dataDir, WORKSPACE_ID_FILE)
  const known = (await readFile(path, 'utf8').catch(nullIfMissing))?.trim()
  if (known) return known
  await writePrivately(path, `${config.workspaceId}\n`)
  return config.workspaceId
}

/** Notes where this server is, for the commands; the returned function takes the note away again. */
export async function announceServer(dataDir: string, url: string): Promise<() => Promise<void>> {
  const path = join(dataDir, SERVER_FILE)
  await writePrivately(path, `${JSON.stringify({ url, pid: process.pid } satisfies ServerNote)}\n`)
  return async () => {
    const note = await readServerNote(dataDir)
    if (note?.pid === process.pid) await rm(path, { force: true })
  }
}

export async function readServerNote(dataDir: string): Promise<ServerNote | null> {
  const text = await readFile(join(dataDir, SERVER_FILE), 'utf8').catch(nullIfMissing)
  if (text === null) return null
  const note = parseNote(text)
  if (!note) return null
  return note.pid === process.pid || isAlive(note.pid) ? note : null
}

/** Null when it is not what we write: it only helps to find the server, and must not stand in the way. */
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
 * Blobs lie in the data folder, whichever database refers to them. Notes that this one does, and answers whether it is the only one:
 * who does not know of the others' frames must not delete their blobs.
 */
export function claimBlobs(dataDir: string, storeId: string): () => boolean {
  const path = join(dataDir, 'blobs', '.stores')
  const known = () => new Set(existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [])
  const stores = known()
  // One that was here before this was noted.
  if (storeId !== SQLITE && existsSync(join(dataDir, 'waymark.db'))) stores.add(SQLITE)
  stores.add(storeId)
  if (stores.size !== known().size) {
    mkdirSync(join(dataDir, 'blobs'), { recursive: true })
    writeFileSync(path, `${[...stores].join('\n')}\n`)
  }
  return () => known().size === 1
}

/** What the store in the folder itself is called. */
export const SQLITE = 'sqlite'
