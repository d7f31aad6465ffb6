import { once } from 'node:events'
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { type DialectAdapter, Kysely, SqliteDialect } from 'kysely'
import type { ThreadReply } from '../../worker-thread/worker-thread.ts'
import type { Outcome } from '../engine.ts'
import { cosine } from '../sql/context/chunk-index.ts'
import { sqlite } from '../sql/dialect.ts'
import { asCalls, asOutcomes } from '../sql/group.ts'
import { migrate } from '../sql/migrate.ts'
import {
  keepsHeads,
  OVER_BUDGET,
  READ_BUDGET_MS,
  type ReadCall,
  readOf,
  readScript,
  type WriteCall,
  writeScript,
} from '../sql/operations.ts'
import { createKnownHeads } from './known-heads.ts'
import { createRunScript } from './run-script.ts'
import { type Packed, packOutcomes, unpackAppends } from './transport.ts'

/**
 * A thread that owns one connection, so that neither an fsync nor a long read blocks the event loop. Only the writer's
 * connection writes; a reader's connection sees committed data and never waits (WAL).
 */
export interface ThreadData {
  path: string
  role: 'writer' | 'reader'
}

export type Work = { read: ReadCall } | { write: readonly WriteCall[] } | { append: Packed }
export type Answer = { outcomes: Outcome[] } | { appended: Packed }
export type Command = { do: 'open' | 'close' }
type Request = Work & { id: number }

const BUSY_TIMEOUT_MS = 10_000
const LOG_PAGES = 2000
const FILLER_BYTES = 512 * 1024

/** SQLite rolls back DDL like any other write, so a killed migration leaves nothing half-applied. */
class AtomicDialect extends SqliteDialect {
  override createAdapter(): DialectAdapter {
    return Object.defineProperty(super.createAdapter(), 'supportsTransactionalDdl', { value: true })
  }
}

const { path, role } = workerData as ThreadData
const port = parentPort
if (!port) throw new Error('this file must run as a worker thread')

// The reader loads while the writer prepares the file, and opens it on the first message.
if (role === 'reader') await once(port, 'message')
const database = new Database(path, { readonly: role === 'reader', timeout: BUSY_TIMEOUT_MS })
if (role === 'writer') {
  database.pragma('journal_mode = WAL')
  // Reusing the log is cheaper to sync than growing it: with 8 MB, a group commit took a fifth less time than with 80 MB.
  database.pragma(`wal_autocheckpoint = ${LOG_PAGES}`)
  await migrate(new Kysely({ dialect: new AtomicDialect({ database }) }), 'sqlite')
}
// Set last: in WAL mode the driver falls back to NORMAL, which can lose commits on a power failure.
database.pragma('synchronous = FULL')
// Overwrite deleted content, so that it can't be recovered from the file.
database.pragma('secure_delete = ON')

// The driver's default of 16 MB a connection fills as the ledger grows; the system caches the file as well.
database.pragma('cache_size = -4000')

if (role === 'reader') await addVectorFunctions(database)

let deadline = Number.POSITIVE_INFINITY
database.function('within_budget', () => {
  if (performance.now() > deadline) throw new Error(OVER_BUDGET)
  return 1
})

const runScript = createRunScript(database)
const heads = createKnownHeads(database)
const dialect = { ...sqlite, knownHeads: heads.known }
const begin = { read: database.prepare('begin'), write: database.prepare('begin immediate') }
const commit = database.prepare('commit')
const rollback = database.prepare('rollback')
if (role === 'writer') extendLog()

/**
 * Gives the log its full size before the first append, because a sync of a growing file takes longer. A rolled back
 * transaction that doesn't fit into the cache does that without a trace in the database.
 */
function extendLog(): void {
  const pageSize = Number(database.pragma('page_size', { simple: true }))
  const missing = LOG_PAGES * pageSize - (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0)
  if (missing <= 0) return
  try {
    database.exec('begin immediate; create table log_extension (filler)')
    const fill = database.prepare('insert into log_extension values (zeroblob(?))')
    for (let left = missing; left > 0; left -= FILLER_BYTES) fill.run(Math.min(left, FILLER_BYTES))
  } catch (error) {
    // A log that could not be extended grows with its appends.
    if (!(error instanceof Database.SqliteError) || error.code !== 'SQLITE_FULL') throw error
  } finally {
    if (database.inTransaction) rollback.run()
  }
}

/** Loads the sqlite-vec extension; if that fails, adds a slower equivalent. */
async function addVectorFunctions(on: Database.Database): Promise<void> {
  try {
    const { load } = await import('sqlite-vec')
    load(on)
  } catch {
    const floats = (bytes: Buffer) => new Float32Array(Uint8Array.from(bytes).buffer)
    on.function('vec_distance_cosine', (a: Buffer, b: Buffer) => 1 - cosine(floats(a), floats(b)))
  }
}

function read(call: ReadCall): Outcome {
  deadline = readOf(call).hasBudget ? performance.now() + READ_BUDGET_MS : Number.POSITIVE_INFINITY
  try {
    begin.read.run()
    const result = runScript(readScript(sqlite, call))
    commit.run()
    return { result }
  } catch (error) {
    return failed(error as Error)
  }
}

function write(group: readonly WriteCall[]): Outcome[] {
  const calls = asCalls(group)
  try {
    begin.write.run()
    heads.forgetIfForeign()
    const results = calls.map((call) => {
      if (!keepsHeads(call)) heads.forget()
      return runScript(writeScript(dialect, call))
    })
    commit.run()
    return asOutcomes(calls, results)
  } catch (error) {
    heads.forget()
    const outcome = failed(error as Error)
    // Another process holds the file: retrying each write would wait for the busy timeout each time.
    if (group.length === 1 || isBusy(outcome.error)) return group.map(() => outcome)
    return group.flatMap((one) => write([one]))
  }
}

function failed(error: Error): { error: Error } {
  // SQLite has already rolled back if the disk is full.
  if (database.inTransaction) rollback.run()
  return { error }
}

function isBusy(error: Error): boolean {
  return 'code' in error && error.code === 'SQLITE_BUSY'
}

port.on('message', (request: Request | Command) => {
  if ('do' in request) {
    database.close()
    port.close()
    return
  }
  const outcomes =
    'read' in request
      ? [read(request.read)]
      : write('append' in request ? unpackAppends(request.append) : request.write)
  const appended = 'append' in request ? packOutcomes(outcomes) : null
  const result = appended ? { appended } : { outcomes }
  port.postMessage({ id: request.id, result } satisfies ThreadReply<Answer>)
})

port.postMessage('ready')
