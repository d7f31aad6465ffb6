import { randomBytes } from 'node:crypto'
import { type FSWatcher, mkdirSync, readFileSync, rmSync, utimesSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BytePath, joined, onDisk } from './byte-path.ts'

/**
 * Reports which paths may have changed, so that a scan looks only at those. It sets one watch per folder, before the folder
 * is read. Its reports are hints: it must prove that it has caught up before a caller uses them.
 *
 * It isn't a recursive watcher: those we tried delay events for 50 ms after any other event, or silently drop the events
 * that overflow the system's queue. Here an overflow is detectable, because the queue is drained in one go.
 */
export interface FolderWatch {
  add(path: BytePath): void
  remove(path: BytePath): void
  /**
   * Returns the paths that may have changed since the last call, once the watches have reported a touch of our own file;
   * null when any path may have changed.
   */
  hints(): Promise<Set<BytePath> | null>
  /** Discards earlier hints, because a full scan follows. */
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

  // Touching one file gives one event. If the event for the last touch does not arrive, the watch is not sound.
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

  /** The system's whole queue is delivered before other code runs, so a burst near its limit may mean lost events. */
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
      // The system has no watches left, or the folder was removed: either way its changes are unknown.
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
      // The watches may no longer be on the folders that they were set on, so the walk sets them again.
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
