import { randomBytes } from 'node:crypto'
import { copyFileSync, existsSync, lstatSync, mkdirSync, readdirSync, renameSync, unlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type BytePath, joined, onDisk, shownPath, toBytePath } from './byte-path.ts'
import { parentOf } from './entry-path.ts'

/** A file that a restore or an edit replaced and that no checkpoint has. It keeps its path and its inode. */
export interface Rescued {
  path: BytePath
  /** Its current path, relative to the data folder. */
  file: string
}

export interface RescuedFile {
  path: string
  file: string
  rescued_at: string
}

const MAX_LISTED = 1000

/** Moves a file to the rescued folder. Renaming keeps the inode, so a program that still writes to it loses nothing. */
export function rescue(folder: string, place: string | Buffer, path: BytePath): Rescued {
  const batch = `${new Date().toISOString().replaceAll(':', '-')}-${randomBytes(3).toString('hex')}`
  const base = toBytePath(join(folder, batch))
  mkdirSync(onDisk(joined(base, parentOf(path)).replace(/\/$/, '')), { recursive: true })
  const kept = onDisk(`${base}/${path}`)
  try {
    renameSync(place, kept)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    copyFileSync(place, kept)
    unlinkSync(place)
  }
  return { path, file: `${basename(folder)}/${batch}/${shownPath(path)}` }
}

/** Every rescued file, oldest first. */
export function listRescued(folder: string): RescuedFile[] {
  if (!existsSync(folder)) return []
  const found: RescuedFile[] = []
  const walk = (batch: string, path: BytePath) => {
    const at = onDisk(`${toBytePath(join(folder, batch))}${path === '' ? '' : `/${path}`}`)
    if (!lstatSync(at).isDirectory()) {
      const shown = path === '' ? batch : shownPath(path)
      const file = path === '' ? `${basename(folder)}/${batch}` : `${basename(folder)}/${batch}/${shown}`
      found.push({ path: shown, file, rescued_at: timeOf(batch) })
      return
    }
    for (const name of readdirSync(at, { encoding: 'latin1' }).sort()) {
      if (found.length >= MAX_LISTED) return
      walk(batch, joined(path, name))
    }
  }
  for (const batch of readdirSync(folder).sort()) walk(batch, '')
  return found
}

/** Folders are named by time; files that an earlier version left have other names. */
function timeOf(batch: string): string {
  const [, day, hours, minutes, rest] = /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-([\d.]+Z)/.exec(batch) ?? []
  return day === undefined ? '' : `${day}T${hours}:${minutes}:${rest}`
}
