import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { type DialectAdapter, Kysely, SqliteDialect } from 'kysely'
import type { Outcome, Write } from '../engine.ts'
import { sqlite } from '../sql/dialect.ts'
import { asCalls, asOutcomes } from '../sql/group.ts'
import { cosine } from '../sql/index.ts'
import { migrate } from '../sql/migrate.ts'
import {
  type Call,
  hasBudget,
  keepsHeads,
  OVER_BUDGET,
  READ_BUDGET_MS,
  reads,
  scriptOf,
  writes,
} from '../sql/operations.ts'
import { createKnownHeads } from './known-heads.ts'
import { createRunScript } from './run-script.ts'
import { type Packed, packOutcomes, unpackAppends } from './transport.ts'

/**
 * A thread that owns one connection, so that neither an fsync nor a long read stops the event loop. The writer's is the
 * only connection that writes; the reader's sees committed data and never waits (WAL).
 */
export interface ThreadData {
  path: string
  role: 'writer' | 'reader'
}

export type Work = { read: Call } | { write: readonly Write[] } | { append: Packed }
export type ThreadRequest = { id: number } & Work
export type ThreadReply = { id: number } & ({ outcomes: Outcome[] } | { appended: Packed })

const BUSY_TIMEOUT_MS = 10_000

/** SQLite rolls definitions back like any other write, so a migration that is killed leaves nothing half-made. */
class AtomicDialect extends SqliteDialect {
  override createAdapter(): DialectAdapter {
    return Object.defineProperty(super.createAdapter(), 'supportsTransactionalDdl', { value: true })
  }
}

const { path, role } = workerData as ThreadData
const port = parentPort
if (!port) throw new Error('this file runs as a thread')

// The reader loads while the writer prepares the file, and opens it when told.
if (role === 'reader') await once(port, 'message')
const database = new Database(path, { readonly: role === 'reader', timeout: BUSY_TIMEOUT_MS })
if (role === 'writer') {
  database.pragma('journal_mode = WAL')
  // A log that is used again is cheaper to sync than one that grows: 8 MB took a fifth off a group commit against 80 MB.
  database.pragma('wal_autocheckpoint = 2000')
  await migrate(new Kysely({ dialect: new AtomicDialect({ database }) }), 'sqlite')
}
// Set last: in WAL the driver falls back to NORMAL, which can lose commits when the machine fails.
database.pragma('synchronous = FULL')
// What was deleted is not to be found in the file any more.
database.pragma('secure_delete = ON')

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

/** The extension's, or where it does not load, our own: slower, and the same. */
async function addVectorFunctions(on: Database.Database): Promise<void> {
  try {
    const { load } = await import('sqlite-vec')
    load(on)
  } catch {
    const floats = (bytes: Buffer) => new Float32Array(Uint8Array.from(bytes).buffer)
    on.function('vec_distance_cosine', (a: Buffer, b: Buffer) => 1 - cosine(floats(a), floats(b)))
  }
}

function answer(request: ThreadRequest): { outcomes: Outcome[] } | { appended: Packed } {
  if ('read' in request) return { outcomes: [read(request.read)] }
  if ('write' in request) return { outcomes: write(request.write) }
  const outcomes = write(unpackAppends(request.append))
  const appended = packOutcomes(outcomes)
  return appended ? { appended } : { outcomes }
}

function transact<T>(kind: keyof typeof begin, body: () => T): T {
  begin[kind].run()
  try {
    const result = body()
    commit.run()
    return result
  } catch (error) {
    // A full disk ends the transaction by itself.
    if (database.inTransaction) rollback.run()
    throw error
  }
}

function read(call: Call): Outcome {
  deadline = hasBudget(call) ? performance.now() + READ_BUDGET_MS : Number.POSITIVE_INFINITY
  return attempt(() => transact('read', () => runScript(scriptOf(reads, sqlite, call))))
}

function write(group: readonly Write[]): Outcome[] {
  const calls = asCalls(group)
  const outcome = attempt(() =>
    transact('write', () => {
      heads.forgetIfForeign()
      return calls.map(runWrite)
    }),
  )
  if ('error' in outcome) heads.forget()
  if ('result' in outcome) return asOutcomes(calls, outcome.result)
  if (group.length === 1) return [outcome]
  // Another process holds the file: waiting once for each would take its time as often.
  if (isBusy(outcome.error)) return group.map(() => outcome)
  return group.flatMap((one) => write([one]))
}

function runWrite(call: Call): unknown {
  if (!keepsHeads.has(call.name)) heads.forget()
  return runScript(scriptOf(writes, dialect, call))
}

function isBusy(error: Error): boolean {
  return 'code' in error && error.code === 'SQLITE_BUSY'
}

function attempt<T>(body: () => T): { result: T } | { error: Error } {
  try {
    return { result: body() }
  } catch (error) {
    return { error: error as Error }
  }
}

port.on('message', (request: ThreadRequest | 'close') => {
  if (request === 'close') {
    database.close()
    port.close()
    return
  }
  port.postMessage({ id: request.id, ...answer(request) } satisfies ThreadReply)
})

port.postMessage({ id: 0, outcomes: [] } satisfies ThreadReply)
