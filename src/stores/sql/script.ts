import type { CompiledQuery } from 'kysely'
import type { BulkTable, Schema } from './schema.ts'

/**
 * A script is what happens inside one transaction, written once for both engines: a generator that yields statements
 * and is handed their rows. SQLite's thread runs it to the end without waiting, Postgres awaits each step.
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
  /** Overwrite the row with the same key instead of failing. */
  replace: readonly string[] | null
}

export function isBulkInsert(step: Step): step is BulkInsert {
  return 'table' in step
}

export function* all<O>(query: { compile(): CompiledQuery<O> }): Script<O[]> {
  return (yield query.compile()) as O[]
}

export function* first<O>(query: { compile(): CompiledQuery<O> }): Script<O | undefined> {
  return (yield* all(query))[0]
}

export function* insertAll<T extends BulkTable>(table: T, rows: readonly Schema[T][]): Script<void> {
  if (rows.length > 0) yield { table, rows: rows as readonly Record<string, unknown>[], replace: null }
}

export function* replaceAll<T extends BulkTable>(
  table: T,
  key: readonly (keyof Schema[T] & string)[],
  rows: readonly Schema[T][],
): Script<void> {
  if (rows.length > 0) yield { table, rows: rows as readonly Record<string, unknown>[], replace: key }
}
