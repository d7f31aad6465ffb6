import { randomBytes } from 'node:crypto'
import { type FSWatcher, mkdirSync, readFileSync, rmSync, utimesSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BytePath, joined, onDisk } from './byte-path.ts'

/**
 * Tells which paths may have changed, so that only those are looked at. One watch a folder, set before the folder is
 * read. Whatever it tells is a hint: who trusts it asks it first to prove that it has caught up.
 *
 * Not a recursive watcher: those we tried keep events back for 50 ms after any other, or drop what the system's queue
 * could not hold without a word. Here an overflow shows, because the queue is emptied in one go.
 */
export interface FolderWatch {
  add(path: BytePath): void
  remove(path: BytePath): void
  /**
   * What may have changed since it was last asked, after a file of ours has come back through the watches; null when
   * anything may have.
   */
  hints(): Promise<Set<BytePath> | null>
  /** Everything is about to be looked at: what came before no longer counts. */
  restart(): void
  folderCount(): number
  close(): void
}

const COOKIE_MS = 500
const QUEUE_LIMIT_FILE = '/proc/sys/fs/inotify/max_queued_events'
const USUAL_QUEUE_LIMIT = 16_384
const MAX_FOLDERS = 50_000

export function createFolderWatch(options: { root: BytePath; cookies: string }): FolderWatch {
  const watchers = new Map<BytePath, FSWatcher>()
  const queueLimit = readQueueLimit()
  let hints = new Set<BytePath>()
  let isSound = true
  let burst = 0
  let onCookie: (() => void) | null = null

  // One file, touched each time: that is one event. The last touch has come back, or this watch is not sound.
  mkdirSync(options.cookies, { recursive: true })
  const cookie = join(options.cookies, randomBytes(8).toString('hex'))
  writeFileSync(cookie, '')
  const cookieWatch = watch(options.cookies, { encoding: 'latin1' }, (_, name) => {
    countBurst()
    if (name !== null && cookie.endsWith(name)) onCookie?.()
  })
  cookieWatch.on('error', doubt)

  function doubt(): void {
    isSound = false
  }

  /** Everything in the system's queue is handed over before anything else runs; as much as it can hold means more. */
  function countBurst(): void {
    if (burst++ === 0) setImmediate(() => (burst = 0))
    if (burst >= queueLimit / 2) doubt()
  }

  function add(path: BytePath): void {
    if (!isSound || watchers.has(path)) return
    if (watchers.size >= MAX_FOLDERS) return doubt()
    try {
      const watcher = watch(
        onDisk(path === '' ? options.root : `${options.root}/${path}`),
        { encoding: 'latin1' },
        (_, name) => {
          countBurst()
          if (name === null) doubt()
          else hints.add(joined(path, name))
        },
      )
      watcher.on('error', doubt)
      watchers.set(path, watcher)
    } catch {
      // No more watches to be had, or the folder has gone: either way it is not known what happens in it.
      doubt()
    }
  }

  function remove(path: BytePath): void {
    watchers.get(path)?.close()
    watchers.delete(path)
  }

  async function catchUp(): Promise<boolean> {
    const back = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), COOKIE_MS)
      onCookie = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
    const now = new Date()
    utimesSync(cookie, now, now)
    const isBack = await back
    onCookie = null
    if (!isBack) doubt()
    return isBack
  }

  return {
    add,
    remove,
    folderCount: () => watchers.size,
    async hints() {
      if (!isSound || !(await catchUp()) || !isSound) return null
      const taken = hints
      hints = new Set()
      return taken
    },
    restart() {
      // Whether they still watch what they were set on is not known either: the walk sets them again.
      if (!isSound) for (const path of watchers.keys()) remove(path)
      hints = new Set()
      isSound = true
    },
    close() {
      for (const watcher of watchers.values()) watcher.close()
      watchers.clear()
      cookieWatch.close()
      rmSync(cookie, { force: true })
    },
  }
}

function readQueueLimit(): number {
  try {
    return Number(readFileSync(QUEUE_LIMIT_FILE, 'utf8')) || USUAL_QUEUE_LIMIT
  } catch {
    return USUAL_QUEUE_LIMIT
  }
}
