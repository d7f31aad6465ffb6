import { constants, existsSync } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { EditFileCommand, EditFileOutcome } from '../../core/work-sessions.ts'
import { isInside } from '../../sandbox/paths.ts'
import type { ToolCall } from './tool.ts'

/** A path that leads out of the workspace, or to a file that no tool may touch. */
export class PathRefused extends Error {}

export interface ConfinedFolder {
  root: string
  /** Our own folder, with links resolved. */
  dataDir: string
  /** Reads the file's bytes and mode; `use` is the purpose, which decides whether the path is allowed. */
  read(path: string, use?: 'read' | 'write'): Promise<{ bytes: Buffer; mode: number }>
  /** Replaces the file atomically. Creates missing folders. */
  write(path: string, bytes: Uint8Array, call: EditingCall, expected?: string): Promise<Edited>
  remove(path: string, call: EditingCall): Promise<Edited>
  /** Opens a folder; the handle stays on it even if the folder is renamed. */
  folder(path: string): Promise<OpenFolder>
  /** The path as shown to users, relative to the root. */
  shown(path: string): string
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

/** A folder held open, with the path it had when it was opened. */
export interface OpenFolder {
  fd: number
  path: string
  close(): Promise<void>
}

export type EditingCall = Pick<ToolCall, 'tenant' | 'conversationId' | 'confirm'>
export type Edited = Extract<EditFileOutcome, { isDone: true }>
/** The only way in which tools change files. */
export type EditFile = (command: EditFileCommand) => Promise<EditFileOutcome>

/** The file differs from the version that the caller has seen. */
export class FileChanged extends Error {}

export const MAX_FILE_BYTES = 10 * 1024 * 1024

/**
 * The workspace as tools see it. Symbolic links are resolved first and must stay inside; then each folder on the way is
 * opened by its handle without following links, so that a link created between check and use leads nowhere.
 */
export async function openConfinedFolder(options: {
  root: string
  /** Our own folder, which tools must not read. */
  dataDir: string
  editFile: EditFile
}): Promise<ConfinedFolder> {
  const root = await realpath(options.root)
  const dataDir = await realpath(options.dataDir).catch(() => resolve(options.dataDir))
  // A working copy is inside our own folder, but tools may use its files.
  const isCopy = isInside(dataDir, root) && root !== dataDir

  /** The path's parts from the root, with links resolved. */
  async function partsOf(path: string, use: 'read' | 'write', followLast: boolean): Promise<string[]> {
    const given = lexicalParts(root, path)
    assertAllowed(given, use)
    const real = await realParts(root, given, followLast)
    assertAllowed(real, use)
    if (!isCopy && isInside(dataDir, join(root, ...real))) throw new PathRefused(`${path} belongs to Waymark`)
    return real
  }

  async function openFolder(parts: readonly string[]): Promise<OpenFolder> {
    let folder = held(await open(root, O_RDONLY | O_DIRECTORY), root)
    for (const part of parts) {
      const outer = folder
      try {
        folder = await openBelow(outer, part)
      } finally {
        await outer.close()
      }
    }
    return folder
  }

  async function edit(path: string, command: EditFileCommand): Promise<Edited> {
    const outcome = await options.editFile(command)
    if (outcome.isDone) return outcome
    if (outcome.why === 'changed') throw new FileChanged(path)
    if (outcome.why === 'not_a_file') throw new PathRefused(`${path} is not a file`)
    throw Object.assign(new Error(`${path} does not exist`), { code: 'ENOENT' })
  }

  return {
    root,
    dataDir,
    shown: (path) => lexicalParts(root, path).join('/') || '.',
    async read(path, use = 'read') {
      const parts = await partsOf(path, use, true)
      const name = fileName(parts, path)
      const folder = await openFolder(parts.slice(0, -1))
      try {
        // Opening a pipe without a writer would block.
        const file = await open(at(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        try {
          const found = await file.stat()
          if (!found.isFile()) throw new PathRefused(`${path} is not a file`)
          if (found.size > MAX_FILE_BYTES) {
            throw new PathRefused(`${path} has ${found.size} bytes; the limit is ${MAX_FILE_BYTES}`)
          }
          return { bytes: await file.readFile(), mode: found.mode }
        } finally {
          await file.close()
        }
      } finally {
        await folder.close()
      }
    },
    async write(path, bytes, call, expected) {
      const parts = await partsOf(path, 'write', true)
      fileName(parts, path)
      return await edit(path, { ...call, path: parts.join('/'), bytes, expected })
    },
    async remove(path, call) {
      // Delete the link itself, not its target.
      const parts = await partsOf(path, 'write', false)
      fileName(parts, path)
      return await edit(path, { ...call, path: parts.join('/'), bytes: null })
    },
    async folder(path) {
      return await openFolder(await partsOf(path, 'read', true))
    },
  }
}

/** Opens paths relative to a handle. Systems without it use the full path, so a link created meanwhile may be followed. */
const HANDLES = '/proc/self/fd'
const hasHandles = existsSync(HANDLES)

/** The path of an entry in an open folder. */
export function at(folder: Pick<OpenFolder, 'fd' | 'path'>, name: string): string {
  return hasHandles ? `${HANDLES}/${folder.fd}/${name}` : join(folder.path, name)
}

function held(handle: FileHandle, path: string): OpenFolder {
  return { fd: handle.fd, path, close: () => handle.close() }
}

async function openBelow(folder: OpenFolder, name: string): Promise<OpenFolder> {
  const handle = await open(at(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  return held(handle, join(folder.path, name))
}

/** Returns null for a missing part of a path or a dangling link; throws other errors. */
function nullUnlessThere(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ELOOP') return null
  throw error
}

function lexicalParts(root: string, path: string): string[] {
  if (path.includes('\0')) throw new PathRefused('a path must not contain NUL')
  if (path.split(/[\\/]/).includes('..')) throw new PathRefused(`${path}: ".." is not allowed`)
  const absolute = isAbsolute(path) ? resolve(path) : resolve(root, path)
  if (!isInside(root, absolute)) throw new PathRefused(`${path} is outside the workspace`)
  return relative(root, absolute).split(sep).filter(Boolean)
}

/** Resolves links as far as the path exists. */
async function realParts(root: string, parts: readonly string[], followLast: boolean): Promise<string[]> {
  const missing: string[] = []
  const existing = [...parts]
  if (!followLast) missing.unshift(...existing.splice(-1))
  for (;;) {
    const real = await realpath(join(root, ...existing)).catch(nullUnlessThere)
    if (real !== null) {
      if (!isInside(root, real)) throw new PathRefused(`${parts.join('/')} leads out of the workspace`)
      return [...relative(root, real).split(sep).filter(Boolean), ...missing]
    }
    const last = existing.pop()
    if (last === undefined) throw new PathRefused('the workspace no longer exists')
    missing.unshift(last)
  }
}

function fileName(parts: readonly string[], path: string): string {
  const name = parts.at(-1)
  if (name === undefined) throw new PathRefused(`${path || '""'} is not a file`)
  return name
}

/** Tools must not change repositories or our own folder, and must not read our folder, because it contains the token. */
function assertAllowed(parts: readonly string[], use: 'read' | 'write'): void {
  for (const part of parts) {
    const name = plainName(part)
    if (name === '.waymark') throw new PathRefused('.waymark belongs to Waymark')
    if (name === '.git' && use === 'write') throw new PathRefused('tools must not change .git')
  }
}

/** Normalizes a name, because some file systems ignore case, invisible characters, and trailing dots and spaces. */
export function plainName(name: string): string {
  return name
    .normalize('NFKC')
    .replaceAll(/[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, '')
    .replace(/[. ]+$/, '')
    .toLowerCase()
}
