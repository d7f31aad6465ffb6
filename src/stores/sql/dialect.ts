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
import type { Head } from './lines/head.ts'
import type { Schema } from './schema.ts'
import type { Script } from './script.ts'

declare const isList: unique symbol
/** A list of texts, encoded as a single parameter for the engine. */
export type List = { [isList]: true }

/** The differences between the engines that scripts depend on. */
export interface Dialect {
  name: 'sqlite' | 'postgres'
  /** Builds and compiles queries; it has no connection. */
  db: Kysely<Schema>
  /** `column in (…)` as one statement with one parameter, for a list of any length. */
  isIn: (column: string, list: List) => RawBuilder<boolean>
  list: (values: readonly string[]) => List
  /** Expands a JSON array of number arrays to rows with these columns. */
  items: (json: string, columns: readonly string[]) => RawBuilder<unknown>
  /** Appended to a select to lock the rows it returns. Empty on SQLite, which has a single writer. */
  lockRows: RawBuilder<unknown>
  /** The database's clock, in milliseconds. Leases use it because the clocks of the workers' machines may differ. */
  nowMs: RawBuilder<number>
  /** True, or an error once a read exceeds its budget. For queries whose cost grows with the whole store. */
  withinBudget: RawBuilder<boolean>
  /** Cached heads. Only valid for an engine with a single writer. */
  knownHeads?: Map<string, Head>
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
  isIn: (column, list) => sql`${sql.ref(column)} in (select value from json_each(${list}))`,
  list: (values) => JSON.stringify(values) as unknown as List,
  items: (json, columns) => {
    const fields = columns.map(
      (name, index) => sql`json_extract(value, ${sql.lit(`$[${index}]`)}) as ${sql.ref(name)}`,
    )
    return sql`(select ${sql.join(fields)} from json_each(${json}))`
  },
  lockRows: sql``,
  nowMs: sql<number>`cast(unixepoch('subsec') * 1000 as integer)`,
  // A custom function, because SQLite has no statement timeout.
  withinBudget: sql<boolean>`within_budget() = 1`,
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
  isIn: (column, list) => sql`${sql.ref(column)} = any(${list}::text[])`,
  list: (values) => values as unknown as List,
  items: (json, columns) => {
    const fields = columns.map(
      (name, index) => sql`cast(item ->> ${sql.lit(index)} as bigint) as ${sql.ref(name)}`,
    )
    return sql`(select ${sql.join(fields)} from jsonb_array_elements(cast(${json} as jsonb)) as item)`
  },
  lockRows: sql`for update`,
  nowMs: sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`,
  // `statement_timeout` enforces the budget.
  withinBudget: sql<boolean>`true`,
}

/** Stands for a value that is only known when the query runs. */
class Placeholder {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** Compiles a query once and runs it with new values each time, for paths that every frame takes. */
export function prepared<A extends object, O>(
  build: (
    dialect: Dialect,
    value: <K extends keyof A & string>(name: K) => A[K],
  ) => {
    compile(): CompiledQuery<O>
  },
): (dialect: Dialect, values: A) => Script<O[]> {
  const compiled = new Map<Dialect['name'], CompiledQuery<O>>()
  return function* (dialect, values) {
    let query = compiled.get(dialect.name)
    if (!query) {
      query = build(dialect, (name) => new Placeholder(name) as never).compile()
      compiled.set(dialect.name, query)
    }
    const parameters = query.parameters.map((parameter) =>
      parameter instanceof Placeholder ? values[parameter.name as keyof A] : parameter,
    )
    return (yield { sql: query.sql, parameters }) as O[]
  }
}
