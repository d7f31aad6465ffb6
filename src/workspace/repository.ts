import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/**
 * The repositories on disk. `store/` holds the objects of all conversations; each conversation has a repository of its own
 * that borrows them, with `main` as the approved state and `session_N` as the work, for people to look into with git.
 * What its branches say follows from the ledger: they can be written again at any time.
 */
export interface Branches {
  /** Branch → checkpoint. */
  heads: Record<string, string>
  /** The branch of the work session that is open. */
  current: string
}

const CONFIG = `[core]
\trepositoryformatversion = 1
\tbare = true
\tfilemode = true
\tlogallrefupdates = false
[gc]
\tauto = 0
`
/** Others borrow these objects: git's own clean-up must not think that nobody needs them. */
const STORE_CONFIG = `${CONFIG}[extensions]
\tpreciousObjects = true
`

export function storeFolder(dataDir: string): string {
  return join(dataDir, 'store')
}

export function conversationFolder(dataDir: string, conversationId: string): string {
  return join(dataDir, 'conversations', conversationId)
}

export function repositoryFolder(dataDir: string, conversationId: string): string {
  return join(conversationFolder(dataDir, conversationId), 'checkpoints')
}

export function prepareStore(dataDir: string): string {
  const store = storeFolder(dataDir)
  mkdirSync(join(store, 'objects', 'pack'), { recursive: true })
  mkdirSync(join(store, 'refs', 'heads'), { recursive: true })
  writeIfOther(join(store, 'config'), STORE_CONFIG)
  writeIfOther(join(store, 'HEAD'), 'ref: refs/heads/none\n')
  return store
}

/** Makes the conversation's repository say this, each branch in one step. */
export function writeBranches(dataDir: string, conversationId: string, wanted: Branches): void {
  const repository = repositoryFolder(dataDir, conversationId)
  const objects = join(repository, 'objects')
  mkdirSync(join(objects, 'info'), { recursive: true })
  mkdirSync(join(objects, 'pack'), { recursive: true })
  mkdirSync(join(repository, 'refs', 'heads'), { recursive: true })
  const shared = relative(objects, join(storeFolder(dataDir), 'objects'))
  writeIfOther(join(objects, 'info', 'alternates'), `${shared}\n`)
  writeIfOther(join(repository, 'config'), CONFIG)
  for (const [name, oid] of Object.entries(wanted.heads)) {
    writeIfOther(join(repository, 'refs', 'heads', name), `${oid}\n`)
  }
  for (const name of readdirSync(join(repository, 'refs', 'heads'))) {
    if (!Object.hasOwn(wanted.heads, name)) rmSync(join(repository, 'refs', 'heads', name))
  }
  writeIfOther(join(repository, 'HEAD'), `ref: refs/heads/${wanted.current}\n`)
}

/** What its branches say, or null when there is no repository yet. */
export function readBranches(dataDir: string, conversationId: string): Branches | null {
  const repository = repositoryFolder(dataDir, conversationId)
  const head = readIfThere(join(repository, 'HEAD'))
  if (head === null) return null
  const folder = join(repository, 'refs', 'heads')
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => !name.endsWith('.lock')) : []
  const heads = Object.fromEntries(names.map((name) => [name, readIfThere(join(folder, name))?.trim() ?? '']))
  return { heads, current: head.trim().replace('ref: refs/heads/', '') }
}

export function conversationsOnDisk(dataDir: string): string[] {
  const folder = join(dataDir, 'conversations')
  return existsSync(folder) ? readdirSync(folder) : []
}

function writeIfOther(path: string, text: string): void {
  if (readIfThere(path) !== text) replace(path, text)
}

function replace(path: string, text: string): void {
  const aside = join(dirname(path), `${randomBytes(6).toString('hex')}.lock`)
  writeFileSync(aside, text)
  renameSync(aside, path)
}

function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw error
  }
}
