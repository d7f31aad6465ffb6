import { renameSync } from 'node:fs'
import Database from 'better-sqlite3'

/** A file or a symbolic link, as it was when its bytes were stored. */
export interface FileEntry {
  size: number
  mtime: bigint
  ctime: bigint
  ino: bigint
  /** The full mode, as lstat reports it. */
  mode: number
  oid: string
  /** Changed so recently before it was read that its times would not show another change. */
  isRacy: boolean
}

/**
 * The manifest on disk: each file as it was when its bytes were stored, so that only changed files are read after a
 * restart. Losing it costs time, and only what tools overwrote since the last checkpoint. Its write lock also keeps two processes on one workspace apart.
 */
export interface Manifest {
  /**
   * Begins a transaction, waiting for other processes. Most of the manifest can be rebuilt if the machine fails; the record
   * of what tools overwrite can't, so it is committed durably.
   */
  lock(how: 'quickly' | 'durably'): void
  commit(): void
  rollback(): void
  files(): Iterable<{ path: string; entry: FileEntry }>
  save(rows: ReadonlyMap<string, FileEntry | null>): void
  clear(): void
  /** Files that the agent's tools wrote: captured regardless of the rules (W3). */
  toolWritten(): ToolWritten[]
  noteToolWritten(file: ToolWritten): void
  /** The objects that tools have overwritten in all working copies; checkpoints may not have them yet. */
  overwritten(): string[]
  /** Records a checkpoint whose frame may not be stored yet. */
  noteCommit(id: string, at: number): void
  commitsSince(at: number): string[]
  /** Returns true if another process has written since the last call. */
  hasChangedElsewhere(): boolean
  /** True if the manifest was just created, so that its data must be rebuilt. */
  isNew: boolean
  note(name: NoteName): string | null
  setNote(name: NoteName, value: string | null): void
  /** Drops the tables of a removed working copy. */
  drop(): void
  close(): void
}

export interface ToolWritten {
  path: string
  /** True if the rules left it out when a tool first wrote it, so that no checkpoint had it. */
  wasLeftOut: boolean
  /** The file before that write; null when it did not exist. */
  before: { oid: string; mode: number } | null
  /** Milliseconds. */
  at: number
}

/**
 * `generation` counts collections: a collection may remove objects that were known to be stored. `checkpoints_removed` is
 * the number of checkpoints that the ledger had ever removed at the last collection.
 */
export type NoteName = 'generation' | 'watching_failed' | 'checkpoints_removed'

const BUSY_MS = 120_000
const tablesOf = (suffix: string) => `
  create table if not exists files${suffix} (
    path text primary key, size integer, mtime_ns integer, ctime_ns integer, inode integer, mode integer,
    object_id text not null, is_racy integer
  ) without rowid;
  create table if not exists tool_written${suffix} (
    path text primary key, was_left_out integer not null, before_object_id text, before_mode integer,
    at integer not null
  ) without rowid;
  create table if not exists commits (id text primary key, at integer not null) without rowid;
  create table if not exists notes (name text primary key, value text not null) without rowid;
`

interface FileRow {
  path: string
  size: bigint
  mtime_ns: bigint
  ctime_ns: bigint
  inode: bigint
  mode: bigint
  object_id: string
  is_racy: bigint
}

/** All working copies of a data folder share one file, since they share one lock; each has its own tables. */
export function openManifest(path: string, copy: string | null = null): Manifest {
  const suffix = copy === null ? '' : `_${copy.replace(/[^a-z0-9_]/g, '')}`
  const { db, isNew } = openDatabase(path, suffix)
  const keyOf = (name: NoteName) => (name === 'watching_failed' ? `${name}${suffix}` : name)
  let current: 'quickly' | 'durably' | null = null
  let version = db.pragma('data_version', { simple: true })
  const put = db.prepare(`insert or replace into files${suffix} values (?, ?, ?, ?, ?, ?, ?, ?)`)
  const drop = db.prepare(`delete from files${suffix} where path = ?`)
  const putCommit = db.prepare('insert or ignore into commits values (?, ?)')
  const getNote = db.prepare('select value from notes where name = ?')
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')

  return {
    isNew,
    hasChangedElsewhere() {
      const before = version
      version = db.pragma('data_version', { simple: true })
      return version !== before
    },
    noteCommit: (id, at) => void putCommit.run(id, at),
    commitsSince(at) {
      db.prepare('delete from commits where at < ?').run(at)
      return (db.prepare('select id from commits').all() as { id: string }[]).map((row) => row.id)
    },
    lock(how) {
      if (how !== current) db.pragma(`synchronous = ${how === 'durably' ? 'FULL' : 'NORMAL'}`)
      current = how
      begin.run()
    },
    commit() {
      if (db.inTransaction) commit.run()
    },
    rollback() {
      if (db.inTransaction) rollback.run()
    },
    *files() {
      const all = db.prepare(`select * from files${suffix}`).safeIntegers()
      for (const row of all.iterate() as Iterable<FileRow>) {
        yield { path: row.path, entry: entryOf(row) }
      }
    },
    save(rows) {
      for (const [path, entry] of rows) {
        if (!entry) drop.run(path)
        else {
          const { size, mtime, ctime, ino, mode, oid, isRacy } = entry
          put.run(path, size, mtime, ctime, BigInt.asIntN(64, ino), mode, oid, isRacy ? 1 : 0)
        }
      }
    },
    clear: () => void db.exec(`delete from files${suffix}`),
    toolWritten() {
      const rows = db.prepare(`select * from tool_written${suffix}`).all() as {
        path: string
        was_left_out: number
        before_object_id: string | null
        before_mode: number | null
        at: number
      }[]
      return rows.map(({ path, was_left_out, before_object_id: oid, before_mode: mode, at }) => ({
        path,
        wasLeftOut: was_left_out === 1,
        before: oid === null || mode === null ? null : { oid, mode },
        at,
      }))
    },
    noteToolWritten({ path, wasLeftOut, before, at }) {
      const columns = 'path, was_left_out, before_object_id, before_mode, at'
      db.prepare(`insert or ignore into tool_written${suffix} (${columns}) values (?, ?, ?, ?, ?)`).run(
        path,
        wasLeftOut ? 1 : 0,
        before?.oid ?? null,
        before?.mode ?? null,
        at,
      )
    },
    overwritten() {
      const tables = db
        .prepare("select name from sqlite_master where type = 'table' and name glob 'tool_written*'")
        .all() as { name: string }[]
      return tables.flatMap(({ name }) => {
        const rows = db.prepare(`select before_object_id as oid from ${name} where oid is not null`).all()
        return (rows as { oid: string }[]).map((row) => row.oid)
      })
    },
    note(name) {
      const row = getNote.get(keyOf(name)) as { value: string } | undefined
      return row?.value ?? null
    },
    setNote(name, value) {
      if (value === null) db.prepare('delete from notes where name = ?').run(keyOf(name))
      else db.prepare('insert or replace into notes values (?, ?)').run(keyOf(name), value)
    },
    drop() {
      for (const table of ['files', 'tool_written']) db.exec(`drop table if exists ${table}${suffix}`)
    },
    close: () => void db.close(),
  }
}

/** Renames a damaged manifest and creates a new one, because it can be rebuilt. */
function openDatabase(path: string, suffix: string): { db: Database.Database; isNew: boolean } {
  const open = () => {
    const db = new Database(path, { timeout: BUSY_MS })
    db.pragma('journal_mode = WAL')
    const isNew = !db.prepare('select 1 from sqlite_master where name = ?').get(`files${suffix}`)
    db.exec(tablesOf(suffix))
    addColumn(db, `tool_written${suffix}`, 'was_left_out', 'integer not null default 1')
    return { db, isNew }
  }
  try {
    return open()
  } catch (error) {
    const { code } = error as { code?: string }
    if (code !== 'SQLITE_NOTADB' && code !== 'SQLITE_CORRUPT') throw error
    renameSync(path, `${path}.damaged-${Date.now()}`)
    return open()
  }
}

/** Manifests of early versions lack columns. */
function addColumn(db: Database.Database, table: string, column: string, definition: string): void {
  const columns = db.pragma(`table_info(${table})`) as { name: string }[]
  if (columns.some(({ name }) => name === column)) return
  db.exec(`alter table ${table} add column ${column} ${definition}`)
}

function entryOf(row: FileRow): FileEntry {
  return {
    size: Number(row.size),
    mtime: row.mtime_ns,
    ctime: row.ctime_ns,
    ino: BigInt.asUintN(64, row.inode),
    mode: Number(row.mode),
    oid: row.object_id,
    isRacy: row.is_racy !== 0n,
  }
}
