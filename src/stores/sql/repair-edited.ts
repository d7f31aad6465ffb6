import { type Kysely, sql } from 'kysely'
import { contextTables } from './migrations/0005-context.ts'

/**
 * Early migrations were edited after databases had been created with them. These steps add what such a database lacks,
 * before the migrations that depend on it. Migrations are no longer edited: a test compares their digests.
 */
interface Repair {
  /** The migration that was edited. */
  of: string
  table: string
  /** Null when the edit added the whole table. */
  column: string | null
  statements: readonly (string | { sqlite: string | null; postgres: string | null })[]
}

const laterTables = ['memories', 'index_files', 'index_chunks', 'index_words', 'attachments']

const repairs: readonly Repair[] = [
  {
    of: '0001-ledger',
    table: 'events',
    column: 'bytes',
    statements: [
      'alter table events add column bytes {int} not null default 0',
      `update events set bytes = coalesce(
        (select n.bytes_before from events n where n.segment = events.segment and n.seq = events.seq + 1),
        (select t.bytes from tips t where t.segment = events.segment)
      ) - bytes_before`,
    ],
  },
  {
    of: '0001-ledger',
    table: 'conversations',
    column: 'updated_at',
    statements: [
      "alter table conversations add column updated_at {text} not null default ''",
      `update conversations set updated_at = coalesce(
        (select t.updated_at from tips t where t.segment = conversations.head_segment), created_at)`,
      'create index conversations_by_change on conversations (tenant_id, updated_at, id)',
    ],
  },
  {
    of: '0001-ledger',
    table: 'unprojected',
    column: null,
    statements: [
      'create table unprojected (segment {int} primary key, projected_seq {int} not null)',
      'insert into unprojected (segment, projected_seq) select no, cut from segments',
      'drop table tips',
    ],
  },
  {
    of: '0001-ledger',
    table: 'tokens',
    column: 'parent_id',
    statements: [
      'alter table tokens add column parent_id {text}',
      'create index if not exists runs_by_segment on runs (segment)',
    ],
  },
  {
    of: '0002-runs',
    table: 'queue',
    column: 'may_change_files',
    // Before the edit, every sender could change files.
    statements: ['alter table queue add column may_change_files {int} not null default 1'],
  },
  {
    of: '0003-workspace',
    table: 'checkpoints',
    column: 'number',
    statements: ['alter table checkpoints add column number {int} not null default 0'],
  },
  {
    of: '0005-context',
    table: 'queue',
    column: 'extras',
    statements: ['alter table queue add column extras {text}'],
  },
  ...laterTables.map((table) => ({
    of: '0005-context',
    table,
    column: null,
    statements: contextTables.filter((one) => isAbout(one, table)),
  })),
]

function isAbout(statement: (typeof contextTables)[number], table: string): boolean {
  const text = typeof statement === 'string' ? statement : `${statement.sqlite} ${statement.postgres}`
  return new RegExp(`(table|on) ${table}\\b`).test(text)
}

/** Adds what the database lacks because it ran an earlier version of a migration. */
export async function repairEdited(
  db: Kysely<unknown>,
  executed: ReadonlySet<string>,
  run: (statement: Repair['statements'][number], db: Kysely<unknown>) => Promise<void>,
): Promise<void> {
  for (const { of, table, column, statements } of repairs) {
    if (!executed.has(of) || (await hasColumn(db, table, column))) continue
    const repair = db.transaction().execute(async (transaction) => {
      for (const statement of statements) await run(statement, transaction)
    })
    await repair.catch(async (error: unknown) => {
      // Another process that started at the same time may have made the repair first.
      if (!(await hasColumn(db, table, column))) throw error
    })
  }
}

/** Runs a query that returns no rows and fails if the table or column is missing. */
export async function hasColumn(db: Kysely<unknown>, table: string, column: string | null): Promise<boolean> {
  const wanted = column === null ? sql`1` : sql.ref(`${table}.${column}`)
  try {
    await sql`select ${wanted} from ${sql.table(table)} where 1 = 0`.execute(db)
    return true
  } catch (error) {
    if (/no such (table|column)|does not exist/.test((error as Error).message)) return false
    throw error
  }
}
