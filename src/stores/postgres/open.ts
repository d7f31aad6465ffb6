import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { WaymarkError } from '../../protocol/errors.ts'
import type { Change, Engine, Outcome } from '../engine.ts'
import { vectorTable } from '../sql/context/chunk-index.ts'
import { postgres } from '../sql/dialect.ts'
import { asCalls, asOutcomes } from '../sql/group.ts'
import { lockConversations } from '../sql/lock.ts'
import { migrate } from '../sql/migrate.ts'
import { ANY } from '../sql/operation.ts'
import {
  isRepeatable,
  lineChangedBy,
  lockedBy,
  OVER_BUDGET,
  queueChangedBy,
  READ_BUDGET_MS,
  type ReadCall,
  type ReadResult,
  readOf,
  readScript,
  type WriteCall,
  writeScript,
} from '../sql/operations.ts'
import { backupPostgres, restorePostgres } from './backup.ts'
import { createListener, type Listener } from './listener.ts'
import { runScript } from './run-script.ts'

const CHANNEL = 'waymark_changed'
/** Precedes the conversation's id in notifications about its queue. */
const QUEUE_PREFIX = 'queue '
const POOL_SIZE = 10
const MAX_ATTEMPTS = 3
const IDLE_TRANSACTION_MS = 5000
/** Calls retry for this long, so that a shorter database outage fails no call and no run. */
const PATIENCE_MS = 30_000
/** Maximum wait for the database at startup. */
const START_MS = 120_000
const MAX_PAUSE_MS = 500
const CONNECT_MS = 5000

export async function openPostgres(url: string): Promise<Engine> {
  const pool = new pg.Pool({
    connectionString: url,
    max: POOL_SIZE,
    types: numericBigints,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS,
    // A process that freezes during a transaction must not block other processes from its conversations.
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_MS,
  })
  // The pool replaces a broken idle connection at its next use, which reports the error.
  pool.on('error', () => {})
  // A connection that breaks while the pool hands it over has no other listener.
  pool.on('connect', (client) => client.on('error', () => {}))
  let listener: Listener
  let isClosed = false
  try {
    await untilThere(() => prepare(pool), START_MS)
    listener = await untilThere(() => createListener({ url, channel: CHANNEL }), START_MS)
  } catch (error) {
    await pool.end()
    throw new WaymarkError('storage_failed', `The database can't be used: ${(error as Error).message}`, {
      cause: error,
    })
  }

  async function transact<T>(begin: string, body: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    let broken: Error | undefined
    let isCommitting = false
    // Losing a connection in use emits this event and also rejects its query.
    const onLost = (error: Error) => {
      broken = error
    }
    client.on('error', onLost)
    try {
      await client.query(begin)
      const result = await body(client)
      isCommitting = true
      await client.query('commit')
      return result
    } catch (error) {
      if (isCommitting && !isAnswer(error)) {
        broken ??= error as Error
        throw new UnknownOutcome(error)
      }
      await client.query('rollback').catch(onLost)
      throw error
    } finally {
      client.off('error', onLost)
      client.release(broken)
    }
  }

  async function write(
    given: readonly WriteCall[],
    deadline = performance.now() + PATIENCE_MS,
  ): Promise<Outcome[]> {
    let group = given
    for (let attempt = 1; ; attempt++) {
      try {
        return await transact('begin', (client) => runGroup(client, group))
      } catch (error) {
        const isUnknown = error instanceof UnknownOutcome
        const isInTime = !isClosed && performance.now() < deadline
        if (attempt < MAX_ATTEMPTS && isContention(error)) continue
        if (isInTime && (isUnknown ? group.every(isRepeatable) : isConnectionError(error))) {
          if (isUnknown) group = group.map(asRepeated)
          await pause(attempt)
          continue
        }
        if (group.length === 1) return [{ error: error as Error }]
        const outcomes: Outcome[] = []
        for (const one of group) {
          // Don't retry a write that may have been stored and would then be stored twice.
          if (isUnknown && !isRepeatable(one)) outcomes.push({ error })
          else outcomes.push(...(await write([isUnknown ? asRepeated(one) : one], deadline)))
        }
        return outcomes
      }
    }
  }

  return {
    async read(name, argument) {
      const deadline = performance.now() + PATIENCE_MS
      for (let attempt = 1; ; attempt++) {
        try {
          return (await transact(beginRead({ name, argument }), (client) =>
            runScript(client, readScript(postgres, { name, argument })),
          )) as ReadResult<typeof name>
        } catch (error) {
          if ((error as { code?: string }).code === QUERY_CANCELED)
            throw new Error(OVER_BUDGET, { cause: error })
          // A read changes nothing, so it's safe to retry after a lost connection.
          const isLost = error instanceof UnknownOutcome || isConnectionError(error)
          if (!isLost || isClosed || performance.now() > deadline) throw error
          await pause(attempt)
        }
      }
    },
    write,
    isSingleProcess: false,
    // Concurrent transactions could commit out of order.
    groupsInFlight: 1,
    onForeignChange: (tell) => listener.onNotice((payload) => tell(asChange(payload))),
    backup: (folder) => backupPostgres(pool, folder),
    restore: (folder) => restorePostgres(pool, folder),
    async close() {
      isClosed = true
      await listener.close()
      await pool.end()
    },
  }
}

const QUERY_CANCELED = '57014'

function beginRead(call: ReadCall): string {
  const begin = 'begin isolation level repeatable read read only'
  // JIT-compiling some searches takes longer than running them.
  const budget = `set local statement_timeout = ${READ_BUDGET_MS}; set local jit = off`
  return readOf(call).hasBudget ? `${begin}; ${budget}` : begin
}

async function runGroup(client: pg.PoolClient, group: readonly WriteCall[]): Promise<Outcome[]> {
  // A server configured for asynchronous commit would let readers see events that it may still lose (L3).
  await client.query('set local synchronous_commit = on')
  // Lock all of them up front and in one order, so that two processes can't deadlock.
  const locked = new Set(group.flatMap((one) => [lineChangedBy(one) ?? [], lockedBy(one) ?? []].flat()))
  if (locked.size > 1) await runScript(client, lockConversations(postgres, [...locked]))
  const calls = asCalls(group)
  const results: unknown[] = []
  for (const call of calls) results.push(await runScript(client, writeScript(postgres, call)))
  const outcomes = asOutcomes(calls, results)
  const changed = [...new Set(group.flatMap((call, index) => noticesOf(call, outcomes[index])))]
  if (changed.length > 0) {
    await client.query('select pg_notify($1, id) from unnest($2::text[]) as id', [CHANNEL, changed])
  }
  return outcomes
}

function noticesOf(call: WriteCall, outcome: Outcome | undefined): string[] {
  const line = lineChangedBy(call)
  const queue = queueChangedBy(call, outcome && 'result' in outcome ? outcome.result : null)
  return [...(line === null ? [] : [line]), ...(queue === null ? [] : [QUEUE_PREFIX + queue])]
}

function asChange(payload: string | null): Change {
  if (payload === null) return { what: 'anything', conversationId: null }
  if (!payload.startsWith(QUEUE_PREFIX)) return { what: 'line', conversationId: payload }
  const id = payload.slice(QUEUE_PREFIX.length)
  return { what: 'queue', conversationId: id === ANY ? null : id }
}

/** The connection was lost during the commit: a retry could store everything twice. */
class UnknownOutcome extends Error {
  constructor(cause: unknown) {
    super('the connection was lost during the commit; the write may or may not be stored', { cause })
  }
}

/** True if the server itself reported the error and so rolled back. Classes 08 and 57P are connection errors. */
function isAnswer(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^(08|57P)/.test(code)
}

/** The server is down, starting, or out of connections: a retry may succeed shortly. */
function isConnectionError(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string }
  return /^(08|57P|53300|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET)/.test(code) || LOST.test(message)
}

/** Messages of driver errors that have no code. */
const LOST =
  /^Connection terminated|not queryable|timeout exceeded when trying to connect|Client was closed|Cannot use a pool after/

function asRepeated(one: WriteCall): WriteCall {
  return { ...one, argument: { ...(one.argument as object), isRepeated: true } }
}

async function untilThere<T>(work: () => Promise<T>, patienceMs: number): Promise<T> {
  const deadline = performance.now() + patienceMs
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!isConnectionError(error) || performance.now() > deadline) throw error
      await pause(attempt)
    }
  }
}

function pause(attempt: number): Promise<void> {
  const ms = Math.min(MAX_PAUSE_MS, 20 * 2 ** Math.min(attempt, 10))
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Another process committed first; a retry sees its changes. */
function isContention(error: unknown): boolean {
  const UNIQUE_VIOLATION = '23505'
  const SERIALIZATION_FAILURE = '40001'
  const DEADLOCK_DETECTED = '40P01'
  const { code } = error as { code?: string }
  return [UNIQUE_VIOLATION, SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(code ?? '')
}

async function prepare(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ server_encoding: string }>('show server_encoding')
  if (rows[0]?.server_encoding !== 'UTF8') throw new Error('the database encoding must be UTF8')
  await migrate(new Kysely({ dialect: new PostgresDialect({ pool }) }), 'postgres')
  await prepareVectors(pool)
}

/** Uses the vector extension if it is installed or can be created; otherwise Waymark compares vectors itself. */
async function prepareVectors(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query("select 1 from pg_available_extensions where name = 'vector'")
  if (rows.length === 0) return
  try {
    await pool.query('create extension if not exists vector')
    await pool.query(vectorTable)
  } catch {
    // No permission to create the extension.
  }
}

const BIGINT_OID = pg.types.builtins.INT8

/** Every bigint is a count or a sequence number, within the safe integers. */
const numericBigints = new pg.TypeOverrides()
numericBigints.setTypeParser(BIGINT_OID, Number)
