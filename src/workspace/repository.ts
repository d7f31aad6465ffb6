import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { isId } from '../protocol/ids.ts'

/**
 * The repositories on disk. `store/` holds the objects of all conversations; each conversation has its own repository that
 * borrows them, with `main` as the approved state and `session_N` as the work, so that users can inspect it with git. Its
 * branches follow from the ledger and can be rewritten at any time.
 */
export interface Branches {
  /** Branch → checkpoint. */
  heads: Record<string, string>
  /** The branch of the open work session. */
  current: string
}

/** Other repositories borrow these objects, so git's own clean-up must not drop them. */
const STORE_CONFIG = `[core]
\trepositoryformatversion = 1
\tbare = true
[gc]
\tauto = 0
[extensions]
\tpreciousObjects = true
`
const HEADS = 'refs/heads/'
const PACKED_REFS = '# pack-refs with: peeled fully-peeled sorted \n'

export function storeFolder(dataDir: string): string {
  return join(dataDir, 'store')
}

export function conversationFolder(dataDir: string, conversationId: string): string {
  return join(dataDir, 'conversations', asPathPart(conversationId))
}

/** Accepts only a valid id as part of a path: names in the data folder may have been planted there. */
function asPathPart(conversationId: string): string {
  if (!isId('conv', conversationId))
    throw new Error(`${JSON.stringify(conversationId)} is not a conversation id`)
  return conversationId
}

export function repositoryFolder(dataDir: string, conversationId: string): string {
  return join(conversationFolder(dataDir, conversationId), 'checkpoints')
}

/** The folder of a conversation's own working copy. */
export function copyFolder(dataDir: string, conversationId: string): string {
  return join(dataDir, 'workspaces', asPathPart(conversationId))
}

/** The mark that stays next to a copy until its conversation is stored. */
export function makingMark(dataDir: string, conversationId: string): string {
  return `${copyFolder(dataDir, conversationId)}${MAKING}`
}

/** From where the changes of a working copy count when it is adopted. */
export interface CopyBase {
  /** The checkpoint that the copy was made from, and the workspace that it belonged to. */
  origin: string
  source: string
  adoptions: Adoption[]
}

interface Adoption {
  /** The workspace that adopted the files. */
  target: string
  /** The adopted files, and the target's files before and after. */
  theirs: string
  before: string
  after: string
}

const MOST_ADOPTIONS = 50

export function copyBaseFile(dataDir: string, conversationId: string): string {
  return `${copyFolder(dataDir, conversationId)}.base`
}

export function readCopyBase(dataDir: string, conversationId: string): CopyBase | null {
  const file = copyBaseFile(dataDir, conversationId)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as CopyBase) : null
}

export function writeCopyBase(dataDir: string, conversationId: string, base: CopyBase): void {
  const file = copyBaseFile(dataDir, conversationId)
  writeFileSync(`${file}.tmp`, `${JSON.stringify(base)}\n`)
  renameSync(`${file}.tmp`, file)
}

/** After a crash before this write, an adoption counts as not made: its files match, so it changes nothing again. */
export function noteAdoption(dataDir: string, conversationId: string, adoption: Adoption): void {
  const base = readCopyBase(dataDir, conversationId)
  if (!base) return
  const adoptions = [...base.adoptions, adoption].slice(-MOST_ADOPTIONS)
  writeCopyBase(dataDir, conversationId, { ...base, adoptions })
}

/** The checkpoints that the next adoption needs. */
export function commitsOfBase({ origin, adoptions }: CopyBase): string[] {
  return [origin, ...adoptions.flatMap(({ theirs, before, after }) => [theirs, before, after])]
}

/** The lock that is held while a copy's files are restored. */
export function copyLock(dataDir: string, conversationId: string): string {
  return join(dataDir, `workspace-${asPathPart(conversationId)}.lock`)
}

export function sizeOfFolder(folder: string): number {
  if (!existsSync(folder)) return 0
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) =>
    entry.isFile(),
  )
  return files.reduce((sum, file) => sum + sizeOfFile(join(file.parentPath, file.name)), 0)
}

export function sizeOfFile(path: string): number {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
}

const MAKING = '.making'

export function copiesInMaking(dataDir: string): string[] {
  const folder = join(dataDir, 'workspaces')
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names
    .filter((name) => name.endsWith(MAKING))
    .map((name) => name.slice(0, -MAKING.length))
    .filter((name) => isId('conv', name))
}

/** Ignore files are hidden, so no checkpoint has them; without them a copy would capture ignored files (W3). */
export function copyIgnoreFiles(from: string, to: string): void {
  const folders = readdirSync(to, { withFileTypes: true, recursive: true }).filter((entry) =>
    entry.isDirectory(),
  )
  for (const path of ['', ...folders.map((entry) => relative(to, join(entry.parentPath, entry.name)))]) {
    const source = join(from, path, '.gitignore')
    if (lstatSync(source, { throwIfNoEntry: false })?.isFile())
      copyFileSync(source, join(to, path, '.gitignore'))
  }
}

export function copiesOnDisk(dataDir: string): string[] {
  return conversationsIn(join(dataDir, 'workspaces'))
}

export function prepareStore(dataDir: string): string {
  const store = storeFolder(dataDir)
  assertOnlyOurs(store)
  mkdirSync(join(store, 'objects', 'pack'), { recursive: true })
  mkdirSync(join(store, 'refs', 'heads'), { recursive: true })
  writeIfOther(join(store, 'config'), STORE_CONFIG)
  writeIfOther(join(store, 'HEAD'), 'ref: refs/heads/none\n')
  return store
}

const STORE_NAMES = new Set(['HEAD', 'config', 'objects', 'refs'])

/** Git obeys files such as `commondir`, `info/attributes` and `objects/info/alternates`; Waymark never writes them. */
function assertOnlyOurs(store: string): void {
  const names = (folder: string) => (existsSync(folder) ? readdirSync(folder) : [])
  const foreign = [
    ...names(store)
      .filter((name) => !STORE_NAMES.has(name) && !name.endsWith('.lock'))
      .map((name) => join(store, name)),
    ...names(join(store, 'objects', 'info'))
      .filter((name) => name.includes('alternates'))
      .map((name) => join(store, 'objects', 'info', name)),
  ]
  const links = ['', ...STORE_NAMES].map((name) => join(store, name)).filter(isLink)
  const [first] = [...foreign, ...links]
  if (first !== undefined) throw new Error(`${first} was not made by Waymark; inspect it and remove it`)
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
}

/** Writes all branches of the conversation's repository in one step. */
export function writeBranches(dataDir: string, conversationId: string, wanted: Branches): void {
  const repository = repositoryFolder(dataDir, conversationId)
  const objects = join(repository, 'objects')
  mkdirSync(join(objects, 'info'), { recursive: true })
  mkdirSync(join(repository, 'refs'), { recursive: true })
  const shared = relative(objects, join(storeFolder(dataDir), 'objects'))
  writeIfOther(join(objects, 'info', 'alternates'), `${shared}\n`)
  const lines = Object.entries(wanted.heads).map(([name, oid]) => `${oid} ${HEADS}${name}\n`)
  // One file for all branches, as `git pack-refs` writes it. Git requires them to be sorted by name.
  const sorted = lines.sort((a, b) => (a.slice(41) < b.slice(41) ? -1 : 1))
  writeIfOther(join(repository, 'packed-refs'), [PACKED_REFS, ...sorted].join(''))
  writeIfOther(join(repository, 'HEAD'), `ref: ${HEADS}${wanted.current}\n`)
}

/** Reads the repository's branches; null when there is no repository yet. */
export function readBranches(dataDir: string, conversationId: string): Branches | null {
  const repository = repositoryFolder(dataDir, conversationId)
  const head = readIfThere(join(repository, 'HEAD'))
  const packed = readIfThere(join(repository, 'packed-refs'))
  if (head === null || packed === null) return null
  const heads = packed.split('\n').flatMap((line) => {
    const [oid = '', name = ''] = line.split(' ')
    return name.startsWith(HEADS) ? [[name.slice(HEADS.length), oid]] : []
  })
  return { heads: Object.fromEntries(heads), current: head.trim().replace(`ref: ${HEADS}`, '') }
}

/** Removes the half-written files that a killed process left. */
export function clearLocks(dataDir: string, conversationId: string): void {
  const repository = repositoryFolder(dataDir, conversationId)
  for (const folder of [repository, join(repository, 'objects', 'info')]) {
    const names = existsSync(folder) ? readdirSync(folder) : []
    for (const name of names.filter((one) => one.endsWith('.lock')))
      rmSync(join(folder, name), { force: true })
  }
}

export function conversationsOnDisk(dataDir: string): string[] {
  return conversationsIn(join(dataDir, 'conversations'))
}

/** Folders named by a conversation's id; links and other names are not ours. */
function conversationsIn(folder: string): string[] {
  const entries = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : []
  return entries.flatMap((entry) => (entry.isDirectory() && isId('conv', entry.name) ? [entry.name] : []))
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
