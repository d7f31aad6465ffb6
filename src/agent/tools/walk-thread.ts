import { once } from 'node:events'
import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort } from 'node:worker_threads'
import type { ThreadReply } from '../../worker-thread/worker-thread.ts'
import { at, plainName } from './confined-folder.ts'

/**
 * Walks the workspace in its own thread: a large tree must not block the server, and a pattern that never finishes can be
 * terminated from outside. Like all code that opens files for the model, it follows no links.
 */
export interface WalkTask {
  root: string
  /** The folder to start in, as parts from the root, with links resolved. */
  parts: string[]
  recursive: boolean
  most: number
  /** A regular expression to search for; null lists the names. */
  pattern: string | null
  /** Our own data folder, which is skipped. */
  dataDir: string
  /** Only files whose path or name matches this glob. */
  glob: string | null
}

export interface WalkResult {
  lines: string[]
  isCut: boolean
}

const SKIPPED = new Set([
  '.git',
  '.waymark',
  'node_modules',
  'dist',
  'build',
  'target',
  'venv',
  '.venv',
  '__pycache__',
])
const MAX_FILE_BYTES = 2 * 1024 * 1024
const MAX_LINE = 300
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

const wildcards: Record<string, string> = { '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' }

if (!parentPort) throw new Error('this file must run as a worker thread')
// A thread walks once.
const [task] = (await once(parentPort, 'message')) as [WalkTask & { id: number }]
const pattern = task.pattern === null ? null : new RegExp(task.pattern, 'u')
const glob = task.glob === null ? null : globPattern(task.glob)
const lines: string[] = []
let isCut = false

interface Folder {
  fd: number
  path: string
}

let start: Folder = { fd: openSync(task.root, FOLDER), path: task.root }
for (const part of task.parts) start = { fd: openSync(at(start, part), FOLDER), path: join(start.path, part) }
walk(start, task.parts.length === 0 ? '' : `${task.parts.join('/')}/`)
parentPort.postMessage({ id: task.id, result: { lines, isCut } } satisfies ThreadReply<WalkResult>)

function walk(folder: Folder, prefix: string): void {
  const entries = readdirSync(at(folder, '.'), { withFileTypes: true })
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    if (isCut) break
    const path = prefix + entry.name
    if (entry.isDirectory()) enter(folder, entry.name, path)
    else if (entry.isFile() && (glob === null || glob.test(path))) visit(folder, entry.name, path)
    else if (entry.isSymbolicLink() && pattern === null) add(`${path} (link)`)
  }
  closeSync(folder.fd)
}

function enter(folder: Folder, name: string, path: string): void {
  if (pattern === null && glob === null) add(`${path}/`)
  if (!task.recursive || SKIPPED.has(plainName(name)) || join(folder.path, name) === task.dataDir) return
  const fd = opened(folder, name, FOLDER)
  if (fd !== null) walk({ fd, path: join(folder.path, name) }, `${path}/`)
}

function visit(folder: Folder, name: string, path: string): void {
  if (pattern === null) return add(path)
  const file = opened(folder, name, FILE)
  if (file === null) return
  try {
    const found = fstatSync(file)
    if (found.isFile() && found.size <= MAX_FILE_BYTES) search(readFileSync(file), path)
  } finally {
    closeSync(file)
  }
}

function search(bytes: Buffer, path: string): void {
  if (bytes.includes(0)) return
  for (const [index, line] of bytes.toString().split('\n').entries()) {
    if (isCut) return
    if (pattern?.test(line)) add(`${path}:${index + 1}: ${line.slice(0, MAX_LINE)}`)
  }
}

/** Returns null when the entry was removed or can't be read, so that the walk continues. */
function opened(folder: Folder, name: string, flags: number): number | null {
  try {
    return openSync(at(folder, name), flags)
  } catch {
    return null
  }
}

function add(line: string): void {
  if (lines.length < task.most) lines.push(line)
  else isCut = true
}

/** `**` matches any path, `*` any name, `?` any character; a glob without a slash matches the name alone. */
function globPattern(text: string): RegExp {
  const escaped = text.replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
  const source = escaped.replaceAll(/\*\*\/|\*\*|\*|\?/g, (wild) => wildcards[wild] ?? wild)
  return new RegExp(text.includes('/') ? `^${source}$` : `(?:^|/)${source}$`, 'u')
}
