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
import type { Head } from './append.ts'
import type { Schema } from './schema.ts'
import type { Script } from './script.ts'

declare const isList: unique symbol
/** A list of texts as the engine takes it for one parameter. */
export type List = { [isList]: true }

/** What differs between the engines when a script is written. */
export interface Dialect {
  name: 'sqlite' | 'postgres'
  /** Builds and compiles queries; it is connected to nothing. */
  db: Kysely<Schema>
  /** `column in (…)` as one statement with one parameter, however long the list. */
  isIn: (column: string, list: List) => RawBuilder<boolean>
  list: (values: readonly string[]) => List
  /** A JSON list of lists of numbers, as rows with these columns. */
  items: (json: string, columns: readonly string[]) => RawBuilder<unknown>
  /** Ends a select that must see no concurrent change of the rows it returns. SQLite's one writer needs nothing. */
  lockRows: RawBuilder<unknown>
  /** The database's own clock, in milliseconds: processes compare leases by it, whatever their machines say. */
  nowMs: RawBuilder<number>
  /** True, or an error once a read has taken longer than its budget. For queries that grow with the whole store. */
  withinBudget: RawBuilder<boolean>
  /** Heads that this connection knows to be as they were: for an engine whose only writer it is. */
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
  // A function of ours: SQLite has no limit of its own.
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
  // The statement's timeout sees to it.
  withinBudget: sql<boolean>`true`,
}

/** Stands for a value that is not known when the query is compiled. */
class Placeholder {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** A query that is compiled once and run with other values each time: for the paths that every frame takes. */
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
