import { createReadStream, createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type pg from 'pg'

/** The rows of all tables, one JSON object per line, read in one transaction from one snapshot. */
const FILE = 'database.jsonl.gz'
const ROWS_AT_ONCE = 500

/** Not backed up: migrations recreate `kysely_` tables, and indexing rebuilds `index_` tables from the files. */
const derived = /^(kysely_|index_)/

export async function backupPostgres(pool: pg.Pool, folder: string): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    const tables = await tablesIn(client)
    await pipeline(
      Readable.from(linesOf(client, tables)),
      createGzip(),
      createWriteStream(join(folder, FILE)),
    )
  } finally {
    await client.query('rollback').catch(() => {})
    client.release()
  }
}

async function* linesOf(client: pg.PoolClient, tables: readonly string[]): AsyncGenerator<string> {
  for (const table of tables) {
    yield `${JSON.stringify({ table })}\n`
    const columns = (await storedColumns(client, table)).map(quoted).join(', ')
    await client.query(`declare rows no scroll cursor for select ${columns} from ${quoted(table)}`)
    for (;;) {
      const { rows } = await client.query<Record<string, unknown>>(`fetch ${ROWS_AT_ONCE} from rows`)
      if (rows.length === 0) break
      for (const row of rows) yield `${JSON.stringify(row, asJson)}\n`
    }
    await client.query('close rows')
  }
}

/** Restores into a migrated database without rows. */
export async function restorePostgres(pool: pg.Pool, folder: string): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const known = new Set(await tablesIn(client))
    for (const table of known) {
      const { rows } = await client.query(`select 1 from ${quoted(table)} limit 1`)
      if (rows.length > 0) throw new Error(`a restore needs an empty database, but ${table} has rows`)
    }
    let table = ''
    let batch: Record<string, unknown>[] = []
    const flush = async () => {
      if (batch.length > 0) await insert(client, table, batch)
      batch = []
    }
    const lines = createInterface({ input: createReadStream(join(folder, FILE)).pipe(createGunzip()) })
    for await (const line of lines) {
      const row = JSON.parse(line, fromJson) as Record<string, unknown>
      if (Object.keys(row).length === 1 && typeof row.table === 'string' && known.has(row.table)) {
        await flush()
        table = row.table
        continue
      }
      batch.push(row)
      if (batch.length === ROWS_AT_ONCE) await flush()
    }
    await flush()
    await moveSequences(client, [...known])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  } finally {
    client.release()
  }
}

async function insert(
  client: pg.PoolClient,
  table: string,
  rows: readonly Record<string, unknown>[],
): Promise<void> {
  for (const row of rows) {
    const names = Object.keys(row)
    const places = names.map((_, index) => `$${index + 1}`)
    await client.query(
      `insert into ${quoted(table)} (${names.map(quoted).join(', ')}) overriding system value values (${places.join(', ')})`,
      Object.values(row),
    )
  }
}

/** Makes generated numbers continue after the restored ones. */
async function moveSequences(client: pg.PoolClient, tables: readonly string[]): Promise<void> {
  const { rows } = await client.query<{ table_name: string; column_name: string }>(
    "select table_name, column_name from information_schema.columns where table_schema = current_schema() and is_identity = 'YES'",
  )
  for (const { table_name: table, column_name: column } of rows.filter((row) =>
    tables.includes(row.table_name),
  )) {
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), coalesce((select max(${quoted(column)}) from ${quoted(table)}), 0) + 1, false)`,
      [table, column],
    )
  }
}

async function tablesIn(client: pg.PoolClient): Promise<string[]> {
  const { rows } = await client.query<{ tablename: string }>(
    'select tablename from pg_tables where schemaname = current_schema() order by tablename',
  )
  return rows.map((row) => row.tablename).filter((name) => !derived.test(name))
}

/** The columns that a restore can insert; the database computes the others from them. */
async function storedColumns(client: pg.PoolClient, table: string): Promise<string[]> {
  const { rows } = await client.query<{ column_name: string }>(
    "select column_name from information_schema.columns where table_schema = current_schema() and table_name = $1 and is_generated = 'NEVER'",
    [table],
  )
  return rows.map((row) => row.column_name)
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** JSON.stringify passes bytes as `{type: 'Buffer', data}`; base64 takes a third of the space. */
function asJson(_key: string, value: unknown): unknown {
  const bytes = value as { type?: unknown; data?: number[] } | null
  if (bytes?.type !== 'Buffer' || !Array.isArray(bytes.data)) return value
  return { base64: Buffer.from(bytes.data).toString('base64') }
}

function fromJson(_key: string, value: unknown): unknown {
  const bytes = value as { base64?: unknown } | null
  return typeof bytes?.base64 === 'string' && Object.keys(bytes).length === 1
    ? Buffer.from(bytes.base64, 'base64')
    : value
}
