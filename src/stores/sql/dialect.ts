import {
  type CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely'
import type { Schema } from './schema.ts'
import type { Script } from './script.ts'

/** What differs between the engines when a script is written. */
export interface Dialect {
  name: 'sqlite' | 'postgres'
  /** Builds and compiles queries; it is connected to nothing. */
  db: Kysely<Schema>
  /** `column in (…)` as one statement with one parameter, however long the list. */
  isIn: (column: string, values: readonly string[]) => RawBuilder<boolean>
  listParameter: (values: readonly string[]) => unknown
  /** Ends a select that must see no concurrent change of the rows it returns. SQLite's one writer needs nothing. */
  lockRows: RawBuilder<unknown>
}

export const sqlite: Dialect = {
  name: 'sqlite',
  db: new Kysely<Schema>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  }),
  isIn: (column, values) =>
    sql`${sql.ref(column)} in (select value from json_each(${sqlite.listParameter(values)}))`,
  listParameter: (values) => JSON.stringify(values),
  lockRows: sql``,
}

export const postgres: Dialect = {
  name: 'postgres',
  db: new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  }),
  isIn: (column, values) => sql`${sql.ref(column)} = any(${postgres.listParameter(values)}::text[])`,
  listParameter: (values) => values,
  lockRows: sql`for update`,
}

/** A query whose only parameter is a list of ids, compiled once: for the path that every frame takes. */
export function listQuery<O>(
  build: (dialect: Dialect) => { compile(): CompiledQuery<O> },
): (dialect: Dialect, ids: readonly string[]) => Script<O[]> {
  const compiled = new Map<Dialect, string>()
  return function* (dialect, ids) {
    let text = compiled.get(dialect)
    if (text === undefined) {
      text = build(dialect).compile().sql
      compiled.set(dialect, text)
    }
    return (yield { sql: text, parameters: [dialect.listParameter(ids)] }) as O[]
  }
}
