import { type Kysely, sql } from 'kysely'
import { DEFAULT_MIGRATION_TABLE, type Migration, Migrator } from 'kysely/migration'
import { ledgerTables } from './migrations/0001-ledger.ts'
import { runTables } from './migrations/0002-runs.ts'
import { workspaceTables } from './migrations/0003-workspace.ts'
import { lineTables } from './migrations/0004-lines.ts'
import { contextTables } from './migrations/0005-context.ts'
import { questionTables } from './migrations/0006-questions.ts'
import { keepTables } from './migrations/0007-keep.ts'
import { growthTables } from './migrations/0008-growth.ts'
import { searchTables } from './migrations/0009-search.ts'
import { operationTables } from './migrations/0010-operations.ts'
import { undoneAt } from './migrations/0011-undone-at.ts'
import { hasColumn, repairEdited } from './repair-edited.ts'

/** Migrations are numbered and forward-only; a fresh database takes the same path as an old one. */
type Statement = string | { sqlite: string | null; postgres: string | null }

const migrations: Record<string, readonly Statement[]> = {
  '0001-ledger': ledgerTables,
  '0002-runs': runTables,
  '0003-workspace': workspaceTables,
  '0004-lines': lineTables,
  '0005-context': contextTables,
  '0006-questions': questionTables,
  '0007-keep': keepTables,
  '0008-growth': growthTables,
  '0009-search': searchTables,
  '0010-operations': operationTables,
  '0011-undone-at': undoneAt,
}

const words = {
  sqlite: { text: 'text', int: 'integer', bytes: 'blob', serial: 'integer primary key autoincrement' },
  // Text in "C" order: ids and times compare by their bytes, whatever the database's locale.
  postgres: {
    text: 'text collate "C"',
    int: 'bigint',
    bytes: 'bytea',
    serial: 'bigint generated always as identity primary key',
  },
} as const

export async function migrate(db: Kysely<unknown>, engine: keyof typeof words): Promise<void> {
  const provider = { getMigrations: async () => mapValues(migrations, (ddl) => asMigration(ddl, engine)) }
  const executed = await executedIn(db)
  const unknown = [...executed].filter((name) => !Object.hasOwn(migrations, name))
  if (unknown.length > 0) {
    throw new Error(
      `it was written by a newer version of Waymark (${unknown.join(', ')}); use that version, or restore a backup made before the upgrade`,
    )
  }
  await repairEdited(db, executed, (statement, within) => runStatement(statement, engine, within))
  const { error } = await new Migrator({ db, provider }).migrateToLatest()
  if (!error) return
  const why = error instanceof Error ? error.message : String(error)
  throw new Error(`the upgrade to this version failed: ${why}`, { cause: error })
}

async function executedIn(db: Kysely<unknown>): Promise<Set<string>> {
  if (!(await hasColumn(db, DEFAULT_MIGRATION_TABLE, 'name'))) return new Set()
  const { rows } = await sql<{
    name: string
  }>`select name from ${sql.table(DEFAULT_MIGRATION_TABLE)}`.execute(db)
  return new Set(rows.map((row) => row.name))
}

async function runStatement(one: Statement, engine: keyof typeof words, db: Kysely<unknown>): Promise<void> {
  const statement = typeof one === 'string' ? one : one[engine]
  if (statement !== null) await sql.raw(inWordsOf(engine, statement)).execute(db)
}

function asMigration(ddl: readonly Statement[], engine: keyof typeof words): Migration {
  return {
    async up(db) {
      for (const one of ddl) await runStatement(one, engine, db)
    },
  }
}

export function inWordsOf(engine: keyof typeof words, statement: string): string {
  return statement.replace(/\{(text|int|bytes|serial)\}/g, (_, word: keyof (typeof words)['sqlite']) => {
    return words[engine][word]
  })
}

function mapValues<A, B>(record: Record<string, A>, map: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))
}
