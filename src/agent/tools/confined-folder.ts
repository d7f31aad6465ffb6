import { constants, existsSync } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { EditFileCommand, EditFileOutcome } from '../../core/work-sessions.ts'
import { isInside } from '../../sandbox/paths.ts'
import type { ToolCall } from './tool.ts'

/** A path that leads out of the workspace, or to what no tool may touch. */
export class PathRefused extends Error {}

export interface ConfinedFolder {
  root: string
  /** Our own folder, links resolved. */
  dataDir: string
  /** The file's bytes and mode; `use` says what they are wanted for. */
  read(path: string, use?: 'read' | 'write'): Promise<{ bytes: Buffer; mode: number }>
  /** Replaces the file, whole or not at all. Makes folders that are missing. */
  write(path: string, bytes: Uint8Array, call: EditingCall, expected?: string): Promise<Edited>
  remove(path: string, call: EditingCall): Promise<Edited>
  /** Opens a folder; the handle stays on it whatever happens to its name. */
  folder(path: string): Promise<OpenFolder>
  /** The path as people see it, from the root. */
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

/** The file is not as the caller believes it to be. */
export class FileChanged extends Error {}

export const MAX_FILE_BYTES = 10 * 1024 * 1024

/**
 * The workspace as tools see it. Symbolic links are resolved first and must stay inside; then each folder on the way is
 * opened by its handle without following links, so that one made between the check and the use leads nowhere.
 */
export async function openConfinedFolder(options: {
  root: string
  /** Our own folder: nothing in it is anybody else's to read. */
  dataDir: string
  editFile: EditFile
}): Promise<ConfinedFolder> {
  const root = await realpath(options.root)
  const dataDir = await realpath(options.dataDir).catch(() => resolve(options.dataDir))
  // A working copy lies in our own folder: what is in the copy is not ours all the same.
  const isCopy = isInside(dataDir, root) && root !== dataDir

  /** The path's parts from the root, links resolved. */
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
    throw Object.assign(new Error(`${path} is not there`), { code: 'ENOENT' })
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
      // A link is deleted itself, not what it leads to.
      const parts = await partsOf(path, 'write', false)
      fileName(parts, path)
      return await edit(path, { ...call, path: parts.join('/'), bytes: null })
    },
    async folder(path) {
      return await openFolder(await partsOf(path, 'read', true))
    },
  }
}

/** Where the system lets one open relative to a handle; elsewhere the path must do, and links made meanwhile may win. */
const HANDLES = '/proc/self/fd'
const hasHandles = existsSync(HANDLES)

/** Name by name from an open folder. */
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

/** A missing part of a path, or a dangling link. */
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

/** Links resolved as far as the path exists. */
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
    if (last === undefined) throw new PathRefused('the workspace is gone')
    missing.unshift(last)
  }
}

function fileName(parts: readonly string[], path: string): string {
  const name = parts.at(-1)
  if (name === undefined) throw new PathRefused(`${path || '""'} is not a file`)
  return name
}

/** Repositories and our own folder are not for tools to change; ours not even to read: the token is in it. */
function assertAllowed(parts: readonly string[], use: 'read' | 'write'): void {
  for (const part of parts) {
    const name = plainName(part)
    if (name === '.waymark') throw new PathRefused('.waymark belongs to Waymark')
    if (name === '.git' && use === 'write') throw new PathRefused('.git is not changed by tools')
  }
}

/** Some file systems take these names for the same: other cases, invisible characters, dots and spaces at the end. */
export function plainName(name: string): string {
  return name
    .normalize('NFKC')
    .replaceAll(/[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, '')
    .replace(/[. ]+$/, '')
    .toLowerCase()
}
