import { createHash } from 'node:crypto'
import type { MessageExtras } from '../core/queue.ts'
import { type ActiveFile, type Chain, isSent, type SkippedFile } from '../core/request-plan.ts'
import { secretIn, withheldByName } from './secrets.ts'
import { estimateTokens } from './tokens.ts'
import { type ConfinedFolder, PathRefused } from './tools/confined-folder.ts'
import { asText } from './tools/file-diff.ts'

/** Larger files are never sent whole (C3). */
export const MAX_ACTIVE_BYTES = 100 * 1024
/** A checkout in which everything is changed must not fill the model's context. */
const MOST_FILES = 50
const MOST_SKIPPED = 100
const SENT = 'sent before'
const CHANGED = 'changed in git'
const AGAIN = 'sent on the previous chain'
const MOST_BYTES = 400 * 1024
/** Instructions for agents, as other tools read them: the first of these that a folder has. */
const INSTRUCTIONS = ['AGENTS.md', 'CLAUDE.md', 'GEMINI.md']
const FOR_AGENTS = 'instructions for agents'
const MOST_INSTRUCTIONS = 10

export interface ActiveFilesDependencies {
  files: ConfinedFolder
  /** Paths that `git status` reports as changed or deleted, relative to the root. */
  changed(): Promise<{ path: string; isDeleted: boolean }[]>
}

export interface FoundFiles {
  files: ActiveFile[]
  skipped: SkippedFile[]
}

/** Finds the files to send whole (named with the message or changed in git), and sent files that have changed since. */
export async function findActiveFiles(
  { files, changed }: ActiveFilesDependencies,
  given: NonNullable<MessageExtras['activeFiles']>,
  chain: Chain | null,
): Promise<FoundFiles> {
  const wanted = new Map<string, { content: string | null; why: string }>()
  const seen = [...given.map(({ path }) => path), ...Object.keys({ ...chain?.touched, ...chain?.files })]
  for (const path of await findInstructions(files, seen)) wanted.set(path, { content: null, why: FOR_AGENTS })
  for (const { path, content } of given) {
    const shown = shownPath(files, path)
    if (shown !== null)
      wanted.set(shown, { content, why: content === null ? 'named with the message' : 'not saved yet' })
  }
  const withheld: SkippedFile[] = []
  for (const { path, isDeleted } of await changed()) {
    if (wanted.has(path)) continue
    const reason = withheldByName(path)
    if (reason !== null) withheld.push({ path, bytes: 0, reason })
    else wanted.set(path, { content: null, why: isDeleted ? 'deleted' : CHANGED })
  }
  // Files that the model has seen may have been changed or deleted since, and deleted ones created again.
  const known = { ...chain?.files, ...chain?.touched }
  for (const path of Object.keys(known)) {
    if (!wanted.has(path)) wanted.set(path, { content: null, why: SENT })
  }
  const found: FoundFiles = { files: [], skipped: withheld }
  for (const { path } of given) {
    if (shownPath(files, path) === null) found.skipped.push({ path, bytes: 0, reason: 'outside the project' })
  }
  for (const [path, { content, why }] of wanted) {
    if (why === SENT) {
      await addChanged(found, files, path, known[path] ?? null)
      continue
    }
    const isFull =
      found.files.length >= MOST_FILES || found.files.reduce((sum, file) => sum + file.bytes, 0) >= MOST_BYTES
    if (isFull) {
      found.skipped.push({
        path,
        bytes: 0,
        reason: `active files exceed ${MOST_FILES} files or ${MOST_BYTES / 1024} KB in total`,
      })
      continue
    }
    await add(found, files, { path, content, why })
  }
  const more = found.skipped.length - MOST_SKIPPED
  if (more > 0) {
    found.skipped.length = MOST_SKIPPED
    found.skipped.push({ path: `${more} more`, bytes: 0, reason: 'too many to list' })
  }
  return found
}

/** The instructions of the project, and of each folder on the way to a file that the model has seen. */
async function findInstructions(files: ConfinedFolder, seen: readonly string[]): Promise<string[]> {
  const folders = new Set([''])
  for (const path of seen) {
    const parts = (shownPath(files, path) ?? '').split('/').slice(0, -1)
    for (const index of parts.keys()) folders.add(`${parts.slice(0, index + 1).join('/')}/`)
  }
  const found: string[] = []
  for (const folder of [...folders].sort()) {
    for (const name of INSTRUCTIONS) {
      const bytes = await bytesOf(files, folder + name)
      if (!(bytes instanceof Buffer)) continue
      found.push(folder + name)
      break
    }
    if (found.length >= MOST_INSTRUCTIONS) break
  }
  return found
}

/** Reloads every file that an ended chain had been sent, so that the new chain starts with all that the old one had (C4). */
export async function reloadFiles(
  files: ConfinedFolder,
  chain: Chain,
  { files: around, skipped }: FoundFiles,
): Promise<FoundFiles> {
  const isReloaded = ({ path }: ActiveFile) => Object.hasOwn(chain.files, path)
  // A report that a file has changed is replaced by the file, if the old chain had been sent all of it.
  const kept = around.filter((file) => isSent(file) || file.why === 'deleted' || !isReloaded(file))
  const found: FoundFiles = { files: kept, skipped: [...skipped] }
  const known = new Set(kept.map((file) => file.path))
  for (const path of Object.keys(chain.files)) {
    if (known.has(path)) continue
    const reason =
      withheldByName(path) ?? (found.files.length >= MOST_FILES ? `more than ${MOST_FILES} files` : null)
    if (reason !== null) found.skipped.push({ path, bytes: 0, reason })
    else await add(found, files, { path, content: null, why: AGAIN })
  }
  return found
}

/** Adds a file that the model has seen, if it was deleted or changed since and is not active now. */
async function addChanged(
  found: FoundFiles,
  files: ConfinedFolder,
  path: string,
  sent: string | null,
): Promise<void> {
  const sha256 = await hashOf(files, path)
  if (sha256 === sent) return
  const state = sha256 === null ? 'gone' : 'changed'
  found.files.push({ path, state, text: '', sha256, bytes: 0, why: SENT, tokens: 5 })
}

/** SHA-256 of a file's bytes; null when it does not exist or can't be read. */
export async function hashOf(files: ConfinedFolder, path: string): Promise<string | null> {
  const bytes = await bytesOf(files, path)
  return bytes instanceof Buffer ? createHash('sha256').update(bytes).digest('hex') : null
}

async function add(
  found: FoundFiles,
  files: ConfinedFolder,
  { path, content, why }: { path: string; content: string | null; why: string },
): Promise<void> {
  const bytes = content === null ? await bytesOf(files, path) : Buffer.from(content)
  if (bytes === null || bytes instanceof Error) {
    const isGone = bytes === null
    if (isGone) found.files.push({ path, state: 'gone', text: '', sha256: null, bytes: 0, why, tokens: 0 })
    else found.skipped.push({ path, bytes: 0, reason: bytes.message })
    return
  }
  if (bytes.length > MAX_ACTIVE_BYTES) {
    found.skipped.push({ path, bytes: bytes.length, reason: `larger than ${MAX_ACTIVE_BYTES / 1024} KB` })
    return
  }
  const together = found.files.reduce((sum, file) => sum + file.bytes, bytes.length)
  if (together > MOST_BYTES) {
    const reason = `active files exceed ${MOST_BYTES / 1024} KB in total`
    found.skipped.push({ path, bytes: bytes.length, reason })
    return
  }
  const text = asText(bytes)
  if (text === null) return void found.skipped.push({ path, bytes: bytes.length, reason: 'not text' })
  // A file that seems to contain a secret is sent only if a person names it.
  const secret = why === CHANGED || why === AGAIN ? secretIn(text) : null
  if (secret !== null) return void found.skipped.push({ path, bytes: bytes.length, reason: secret })
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const size = { bytes: bytes.length, tokens: estimateTokens(text) }
  const state = why === FOR_AGENTS ? 'instructions' : 'whole'
  found.files.push({ path, state, text, sha256, why, ...size })
}

/** Returns null when the file does not exist, and an error when it can't be read. */
async function bytesOf(files: ConfinedFolder, path: string): Promise<Buffer | null | Error> {
  try {
    return (await files.read(path)).bytes
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    return error instanceof PathRefused ? error : new Error("it can't be read")
  }
}

/** The path relative to the root; null when it is outside. */
export function shownPath(files: ConfinedFolder, path: string): string | null {
  try {
    return files.shown(path)
  } catch (error) {
    if (error instanceof PathRefused) return null
    throw error
  }
}
