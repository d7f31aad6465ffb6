import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Claim } from '../../core/queue.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { Change, Engine, Outcome, Write } from '../engine.ts'
import type { AppendRequest } from '../sql/append.ts'
import { postgres } from '../sql/dialect.ts'
import { asCalls, asOutcomes } from '../sql/group.ts'
import { vectorTable } from '../sql/index.ts'
import { lockConversations } from '../sql/lock.ts'
import { migrate } from '../sql/migrate.ts'
import {
  type Call,
  hasBudget,
  OVER_BUDGET,
  READ_BUDGET_MS,
  type ReadResult,
  reads,
  scriptOf,
  type WriteName,
  writes,
} from '../sql/operations.ts'
import { backupPostgres, restorePostgres } from './backup.ts'
import { createListener, type Listener } from './listener.ts'
import { runScript } from './run-script.ts'

const CHANNEL = 'waymark_changed'
/** Before the conversation's id when it is its queue that has changed. */
const QUEUE_PREFIX = 'queue '
const POOL_SIZE = 10
const MAX_ATTEMPTS = 3
const IDLE_TRANSACTION_MS = 5000
/** A database that comes back within this time fails no call, and no run. */
const PATIENCE_MS = 30_000
/** And this long it is waited for at the start. */
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
    // A process that freezes in the middle of a transaction must not keep the others from its conversations.
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_MS,
  })
  // An idle connection that breaks is replaced at its next use, where the error shows.
  pool.on('error', () => {})
  // A connection that breaks during the hand-over has no other listener.
  pool.on('connect', (client) => client.on('error', () => {}))
  let listener: Listener
  try {
    await untilThere(() => prepare(pool), START_MS)
    listener = await untilThere(() => createListener({ url, channel: CHANNEL }), START_MS)
  } catch (error) {
    await pool.end()
    throw new WaymarkError('storage_failed', `the database can not be used: ${(error as Error).message}`, {
      cause: error,
    })
  }

  async function transact<T>(begin: string, body: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    let broken: Error | undefined
    let isCommitting = false
    // A connection that is lost while it is in use says so here as well as to its query.
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
    given: readonly Write[],
    deadline = performance.now() + PATIENCE_MS,
  ): Promise<Outcome[]> {
    let group = given
    for (let attempt = 1; ; attempt++) {
      try {
        return await transact('begin', (client) => runGroup(client, group))
      } catch (error) {
        const isUnknown = error instanceof UnknownOutcome
        const isInTime = performance.now() < deadline
        if (attempt < MAX_ATTEMPTS && isContention(error)) continue
        if (isInTime && (isUnknown ? group.every(isRepeatable) : isConnectionError(error))) {
          if (isUnknown) group = group.map(asRepeated)
          await pause(attempt)
          continue
        }
        if (group.length === 1) return [{ error: error as Error }]
        const outcomes: Outcome[] = []
        for (const one of group) {
          // What may have been stored, and would be stored twice, is not tried again.
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
            runScript(client, scriptOf(reads, postgres, { name, argument })),
          )) as ReadResult<typeof name>
        } catch (error) {
          if ((error as { code?: string }).code === QUERY_CANCELED)
            throw new Error(OVER_BUDGET, { cause: error })
          // Reading changes nothing, so a lost connection is no reason to give up.
          const isLost = error instanceof UnknownOutcome || isConnectionError(error)
          if (!isLost || performance.now() > deadline) throw error
          await pause(attempt)
        }
      }
    },
    write,
    // Two transactions at once could overtake each other.
    isSingleProcess: false,
    groupsInFlight: 1,
    onForeignChange: (tell) => listener.onNotice((payload) => tell(asChange(payload))),
    backup: (folder) => backupPostgres(pool, folder),
    restore: (folder) => restorePostgres(pool, folder),
    async close() {
      await listener.close()
      await pool.end()
    },
  }
}

const QUERY_CANCELED = '57014'

function beginRead(call: Call): string {
  const begin = 'begin isolation level repeatable read read only'
  return hasBudget(call) ? `${begin}; set local statement_timeout = ${READ_BUDGET_MS}` : begin
}

async function runGroup(client: pg.PoolClient, group: readonly Write[]): Promise<Outcome[]> {
  // A server set to acknowledge early would show what it may still lose (L3).
  await client.query('set local synchronous_commit = on')
  // All of them at once and in one order: two processes never wait for each other.
  const locked = new Set(group.flatMap((one) => [one.conversationId ?? [], one.locks ?? []].flat()))
  if (locked.size > 1) await runScript(client, lockConversations(postgres, [...locked]))
  const calls = asCalls(group)
  const results: unknown[] = []
  for (const call of calls) results.push(await runScript(client, scriptOf(writes, postgres, call)))
  const changed = [
    ...new Set(
      group.flatMap((one) => [
        ...(one.conversationId ? [one.conversationId] : []),
        ...(one.queueOf ? [QUEUE_PREFIX + one.queueOf] : []),
      ]),
    ),
    ...results.flatMap((result, index) => claimedBy(calls[index]?.name, result)),
  ]
  if (changed.length > 0) {
    await client.query('select pg_notify($1, id) from unnest($2::text[]) as id', [CHANNEL, changed])
  }
  return asOutcomes(calls, results)
}

/** The conversation of a claimed run is known only after the claim. */
function claimedBy(name: string | undefined, result: unknown): string[] {
  return name === 'claimRun' && result ? [QUEUE_PREFIX + (result as Claim).conversationId] : []
}

function asChange(payload: string | null): Change {
  if (payload === null) return { what: 'anything', conversationId: null }
  return payload.startsWith(QUEUE_PREFIX)
    ? { what: 'queue', conversationId: payload.slice(QUEUE_PREFIX.length) }
    : { what: 'ledger', conversationId: payload }
}

/** The connection was lost at the commit: trying again could store everything twice. */
class UnknownOutcome extends Error {
  constructor(cause: unknown) {
    super('the connection was lost while committing; whether it was stored is not known', { cause })
  }
}

/** Whether the server itself said no, in which case it has rolled back. Classes 08 and 57P are about the connection. */
function isAnswer(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^(08|57P)/.test(code)
}

/** The server is away, is starting, or has no connection left for us: the same may go through in a moment. */
function isConnectionError(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string }
  return /^(08|57P|53300|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET)/.test(code) || LOST.test(message)
}

/** The driver gives these no code. */
const LOST =
  /^Connection terminated|not queryable|timeout exceeded when trying to connect|Client was closed|Cannot use a pool after/

/**
 * Writes that may be sent again when it is not known whether they were stored: appends of a run say how many frames come
 * before them, the others put the same row in the same place.
 */
const repeatable: ReadonlySet<string> = new Set<WriteName>([
  'putAgentState',
  'putAgentWrites',
  'putEntries',
  'beginResponse',
  'endResponse',
  'renewLeases',
  'releaseLeases',
  'ask',
  'finishChange',
  'abandonChange',
  'failChange',
  'removeIndexed',
  'setVectors',
])

function isRepeatable({ name, argument }: Write): boolean {
  return name === 'append' ? (argument as AppendRequest).runId !== null : repeatable.has(name)
}

function asRepeated(one: Write): Write {
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

/** Another process was faster; the same transaction sees its work at the next attempt. */
function isContention(error: unknown): boolean {
  const UNIQUE_VIOLATION = '23505'
  const SERIALIZATION_FAILURE = '40001'
  const DEADLOCK_DETECTED = '40P01'
  const { code } = error as { code?: string }
  return [UNIQUE_VIOLATION, SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(code ?? '')
}

async function prepare(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ server_encoding: string }>('show server_encoding')
  if (rows[0]?.server_encoding !== 'UTF8') throw new Error('the database must be encoded in UTF8')
  await migrate(new Kysely({ dialect: new PostgresDialect({ pool }) }), 'postgres')
  await prepareVectors(pool)
}

/** Where the extension is, or may be made, vectors are compared by it; elsewhere by us. */
async function prepareVectors(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query("select 1 from pg_available_extensions where name = 'vector'")
  if (rows.length === 0) return
  try {
    await pool.query('create extension if not exists vector')
    await pool.query(vectorTable)
  } catch {
    // Not for us to make.
  }
}

const BIGINT_OID = pg.types.builtins.INT8

/** Numbers here are counts and sequence numbers, all within the safe integers. */
const numericBigints = new pg.TypeOverrides()
numericBigints.setTypeParser(BIGINT_OID, Number)
