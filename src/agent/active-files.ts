import { createHash } from 'node:crypto'
import type { ActiveFile, Chain, SkippedFile } from '../core/context.ts'
import type { MessageExtras } from '../core/queue.ts'
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
const AGAIN = 'sent on the chain before'
const MOST_BYTES = 400 * 1024

export interface ActiveFilesDependencies {
  files: ConfinedFolder
  /** Paths that git would call changed or deleted, relative to the root. */
  changed(): Promise<{ path: string; isDeleted: boolean }[]>
}

export interface FoundFiles {
  files: ActiveFile[]
  skipped: SkippedFile[]
}

/** The files whose whole text goes to the model: named with the message, changed in git, or told before and gone since. */
export async function findActiveFiles(
  { files, changed }: ActiveFilesDependencies,
  given: NonNullable<MessageExtras['activeFiles']>,
  chain: Chain | null,
): Promise<FoundFiles> {
  const wanted = new Map<string, { content: string | null; why: string }>()
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
  // What the model believes to be there and is not.
  for (const [path, sha256] of Object.entries(chain?.files ?? {})) {
    if (sha256 !== null && !wanted.has(path)) wanted.set(path, { content: null, why: SENT })
  }
  const found: FoundFiles = { files: [], skipped: withheld }
  for (const { path } of given) {
    if (shownPath(files, path) === null) found.skipped.push({ path, bytes: 0, reason: 'outside the project' })
  }
  for (const [path, { content, why }] of wanted) {
    if (why === SENT) {
      await addChanged(found, files, path, chain?.files[path] ?? null)
      continue
    }
    const isFull =
      found.files.length >= MOST_FILES || found.files.reduce((sum, file) => sum + file.bytes, 0) >= MOST_BYTES
    if (isFull) {
      found.skipped.push({
        path,
        bytes: 0,
        reason: `active files are more than ${MOST_FILES}, or than ${MOST_BYTES / 1024} KB together`,
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

/** Every file that an ended chain had been sent, as it is now: the new one begins with all that the old one knew (C4). */
export async function reloadFiles(
  files: ConfinedFolder,
  chain: Chain,
  { files: around, skipped }: FoundFiles,
): Promise<FoundFiles> {
  const isWhole = (file: ActiveFile) => file.state === 'whole' || file.why === 'deleted'
  const found: FoundFiles = { files: around.filter(isWhole), skipped: [...skipped] }
  const known = new Set(found.files.map((file) => file.path))
  for (const [path, sha256] of Object.entries(chain.files)) {
    if (sha256 === null || known.has(path)) continue
    const reason =
      withheldByName(path) ?? (found.files.length >= MOST_FILES ? `more than ${MOST_FILES} files` : null)
    if (reason !== null) found.skipped.push({ path, bytes: 0, reason })
    else await add(found, files, { path, content: null, why: AGAIN })
  }
  // A file that has gone since was never sent to the new chain: nothing needs to be said of it.
  return { ...found, files: found.files.filter(isWhole) }
}

/** Files that the model has seen and that are not active now: deleted, or changed since. */
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

/** SHA-256 of a file's bytes; null when it is not there, or not for us. */
export async function hashOf(files: ConfinedFolder, path: string): Promise<string | null> {
  const bytes = await bytesOf(files, path)
  return bytes instanceof Buffer ? createHash('sha256').update(bytes).digest('hex') : null
}

const touching = new Set(['read_file', 'write_to_file', 'replace_in_file', 'delete_file'])

/** The files that a call was about. */
export function touchedBy(files: ConfinedFolder, name: string, args: string): string[] {
  if (!touching.has(name)) return []
  try {
    const { path } = JSON.parse(args) as { path?: unknown }
    const shown = typeof path === 'string' ? shownPath(files, path) : null
    return shown === null ? [] : [shown]
  } catch {
    // No JSON: then nothing was done.
    return []
  }
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
    const reason = `active files have more than ${MOST_BYTES / 1024} KB together`
    found.skipped.push({ path, bytes: bytes.length, reason })
    return
  }
  const text = asText(bytes)
  if (text === null) return void found.skipped.push({ path, bytes: bytes.length, reason: 'not text' })
  // Only a person's own word sends what looks like a secret.
  const secret = why === CHANGED || why === AGAIN ? secretIn(text) : null
  if (secret !== null) return void found.skipped.push({ path, bytes: bytes.length, reason: secret })
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const size = { bytes: bytes.length, tokens: estimateTokens(text) }
  found.files.push({ path, state: 'whole', text, sha256, why, ...size })
}

/** Null when it is not there; an error that says why it can't be had. */
async function bytesOf(files: ConfinedFolder, path: string): Promise<Buffer | null | Error> {
  try {
    return (await files.read(path)).bytes
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    return error instanceof PathRefused ? error : new Error('it can not be read')
  }
}

function shownPath(files: ConfinedFolder, path: string): string | null {
  try {
    return files.shown(path)
  } catch (error) {
    if (error instanceof PathRefused) return null
    throw error
  }
}
