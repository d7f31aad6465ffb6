import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, realpathSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'

/** The user's own repository. It is only read, as plain files: nothing here starts git. */
export interface UserRepository {
  workTree: string
  gitDir: string
  /** The git directory of the main repository; differs from `gitDir` in a linked worktree. */
  commonDir: string
}

const MAX_LINK_BYTES = 4096
const MAX_REFS_BYTES = 32 * 1024 * 1024
const OID = /^([0-9a-f]{40}|[0-9a-f]{64})$/

/** The repository that a folder belongs to, or null. Ignores bare repositories: a project could be one in disguise. */
export async function findRepository(folder: string): Promise<UserRepository | null> {
  for (let at = realpathSync(folder); ; at = dirname(at)) {
    const dotGit = join(at, '.git')
    const found = lstatSync(dotGit, { throwIfNoEntry: false })
    if (found?.isDirectory()) return isOwned(dotGit, at) ? repositoryAt(at, dotGit, dotGit) : null
    if (found?.isFile()) return await linkedRepository(at, dotGit)
    if (found || dirname(at) === at) return null
  }
}

/** A linked worktree or a submodule. The git directory must point back here, so that a planted link has no effect. */
async function linkedRepository(workTree: string, dotGit: string): Promise<UserRepository | null> {
  const text = (await readSmall(dotGit, MAX_LINK_BYTES))?.toString() ?? ''
  const target = /^gitdir: (.+?)\n?$/.exec(text)?.[1]
  if (target === undefined) return null
  const gitDir = realOrNull(resolve(workTree, target))
  if (gitDir === null || !isOwned(gitDir, workTree)) return null
  const back = (await readSmall(join(gitDir, 'gitdir'), MAX_LINK_BYTES))?.toString().trim()
  if (back !== undefined) {
    if (realOrNull(back) !== realOrNull(dotGit)) return null
    const common = (await readSmall(join(gitDir, 'commondir'), MAX_LINK_BYTES))?.toString().trim()
    const commonDir = common === undefined ? gitDir : realOrNull(resolve(gitDir, common))
    return commonDir === null || !gitDir.startsWith(commonDir + sep)
      ? null
      : repositoryAt(workTree, gitDir, commonDir)
  }
  // A submodule's git directory is inside that of its superproject, whose folder contains the submodule.
  const isAbove = gitDir.split(`${sep}.git${sep}modules${sep}`)[0] ?? ''
  return gitDir.includes(`${sep}.git${sep}modules${sep}`) && workTree.startsWith(isAbove + sep)
    ? repositoryAt(workTree, gitDir, gitDir)
    : null
}

function repositoryAt(workTree: string, gitDir: string, commonDir: string): UserRepository | null {
  const objects = lstatSync(join(commonDir, 'objects'), { throwIfNoEntry: false })
  return objects?.isDirectory() ? { workTree, gitDir, commonDir } : null
}

/** Checks the owner, because another local user may have put a repository into a folder above the project. */
function isOwned(gitDir: string, workTree: string): boolean {
  const owner = lstatSync(gitDir).uid
  return owner === process.getuid?.() || owner === lstatSync(workTree).uid
}

/** The commit that HEAD names; `null` before the first commit, `undefined` if it can't be determined. */
export async function headCommit({ gitDir, commonDir }: UserRepository): Promise<string | null | undefined> {
  const head = (await readSmall(join(gitDir, 'HEAD'), MAX_LINK_BYTES))?.toString().trim()
  if (head === undefined) return undefined
  if (OID.test(head)) return head
  const ref = /^ref: (refs\/[^\0]+)$/.exec(head)?.[1]
  if (ref === undefined || ref.split('/').some((part) => part === '..' || part === '.' || part === ''))
    return undefined
  // The refs aren't stored as files, so the commit can't be determined.
  if (lstatSync(join(commonDir, 'reftable'), { throwIfNoEntry: false })) return undefined
  const loose = (await readSmall(join(commonDir, ref), MAX_LINK_BYTES))?.toString().trim()
  if (loose !== undefined) return OID.test(loose) ? loose : undefined
  // Unreadable, such as a link. A folder is fine: it has branches below this name, and this one may be packed.
  const other = lstatSync(join(commonDir, ref), { throwIfNoEntry: false })
  if (other && !other.isDirectory()) return undefined
  const packed = (await readSmall(join(commonDir, 'packed-refs'), MAX_REFS_BYTES))?.toString() ?? ''
  const line = packed.split('\n').find((one) => one.endsWith(` ${ref}`))
  const packedId = line?.split(' ')[0]
  if (packedId === undefined) return null
  return OID.test(packedId) ? packedId : undefined
}

const MAX_CONFIG_BYTES = 256 * 1024
const MAX_NAME = 200

/** The repository's display name (the path of `origin`, without host and credentials) and its branch; null if it has none. */
export async function describeRepository(
  folder: string,
): Promise<{ repository: string | null; branch: string | null }> {
  const found = await findRepository(folder)
  if (!found) return { repository: null, branch: null }
  const head = (await readSmall(join(found.gitDir, 'HEAD'), MAX_LINK_BYTES))?.toString().trim()
  const branch = /^ref: refs\/heads\/(.+)$/.exec(head ?? '')?.[1] ?? null
  const config = (await readSmall(join(found.commonDir, 'config'), MAX_CONFIG_BYTES))?.toString() ?? ''
  return { repository: originIn(config), branch: branch?.slice(0, MAX_NAME) ?? null }
}

function originIn(config: string): string | null {
  const lines = config.split('\n').map((line) => line.trim())
  const start = lines.indexOf('[remote "origin"]')
  const rest = start < 0 ? [] : lines.slice(start + 1)
  const end = rest.findIndex((line) => line.startsWith('['))
  const url = (end < 0 ? rest : rest.slice(0, end))
    .map((line) => /^url\s*=\s*(.+)$/.exec(line)?.[1])
    .find(Boolean)
  if (url === undefined) return null
  const path = url.replace(/^[a-z+]+:\/\/[^/]*\//i, '').replace(/^[^/]*:(?!\/)/, '')
  const name = path
    .replace(/\.git\/?$/, '')
    .split('/')
    .filter(Boolean)
    .slice(-2)
    .join('/')
  return name.slice(0, MAX_NAME) || null
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** Reads a regular file of at most this size, or returns undefined: a pipe or a device would block the reader. */
export async function readSmall(path: string, most: number): Promise<Buffer | undefined> {
  return await readFrom(path, (size) => (size > most ? undefined : 0))
}

/** Reads the end of a regular file, at most this much of it. */
export async function readEnd(path: string, most: number): Promise<Buffer | undefined> {
  return await readFrom(path, (size) => Math.max(0, size - most))
}

async function readFrom(
  path: string,
  /** Where to begin in a file of this size; undefined refuses it. */
  startIn: (size: number) => number | undefined,
): Promise<Buffer | undefined> {
  let file: FileHandle
  try {
    file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch {
    return undefined
  }
  try {
    const found = await file.stat()
    const start = found.isFile() ? startIn(found.size) : undefined
    if (start === undefined) return undefined
    const bytes = Buffer.alloc(found.size - start)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
    return bytes.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

function realOrNull(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/** A pipe, a device or a large file has no settings: reading it would block the server. */
function settingsText(path: string): string {
  let file: number
  try {
    file = openSync(path, O_RDONLY | O_NONBLOCK)
  } catch {
    return ''
  }
  try {
    const found = fstatSync(file)
    return found.isFile() && found.size <= MAX_CONFIG_BYTES ? readFileSync(file, 'utf8') : ''
  } finally {
    closeSync(file)
  }
}

/** The settings of a git configuration file by `section.name`; later lines win. Executes and includes nothing. */
export function plainSettings(path: string): Map<string, string> {
  const found = new Map<string, string>()
  const text = settingsText(path)
  let section = ''
  for (const line of text.split('\n')) {
    const head = /^\s*\[\s*([A-Za-z0-9.-]+)\s*(".*")?\s*\]/.exec(line)
    if (head?.[1] !== undefined) section = `${head[1].toLowerCase()}${head[2] ?? ''}`
    const [, name, value] = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^#;]*?)\s*(?:[#;].*)?$/.exec(line) ?? []
    if (name !== undefined && value !== undefined)
      found.set(`${section}.${name.toLowerCase()}`, value.replaceAll('"', ''))
  }
  return found
}
