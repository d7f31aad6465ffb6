import type { CompiledQuery, Selectable } from 'kysely'
import type { BulkTable, Schema } from './schema.ts'

/**
 * A script is the body of one transaction, written once for both engines: a generator that yields statements and
 * receives their rows. SQLite's thread runs it synchronously; Postgres awaits each step.
 */
export type Script<T> = Generator<Step, T, unknown[]>

export type Step = Statement | BulkInsert

export interface Statement {
  sql: string
  parameters: readonly unknown[]
}

export interface BulkInsert {
  table: BulkTable
  rows: readonly Record<string, unknown>[]
  onConflict: OnConflict
}

/** If a row with the same key exists: fail, keep that row, or replace it; the list names the key columns. */
export type OnConflict = 'fail' | 'skip' | readonly string[]

export function isBulkInsert(step: Step): step is BulkInsert {
  return 'table' in step
}

export function* all<O>(query: { compile(): CompiledQuery<O> }): Script<O[]> {
  return (yield query.compile()) as O[]
}

export function* first<O>(query: { compile(): CompiledQuery<O> }): Script<O | undefined> {
  return (yield* all(query))[0]
}

export function* insertAll<T extends BulkTable>(
  table: T,
  rows: readonly Selectable<Schema[T]>[],
  onConflict: OnConflict = 'fail',
): Script<void> {
  if (rows.length > 0) yield { table, rows: rows, onConflict }
}

export function* replaceAll<T extends BulkTable>(
  table: T,
  key: readonly (keyof Schema[T] & string)[],
  rows: readonly Selectable<Schema[T]>[],
): Script<void> {
  yield* insertAll(table, rows, key)
}
