import type Database from 'better-sqlite3'
import { conflictClause } from '../sql/conflict-clause.ts'
import { type BulkInsert, isBulkInsert, type Script, type Statement } from '../sql/script.ts'

/** Rows per statement: a third less time per row than single inserts; larger batches gain nothing. */
const ROWS_AT_ONCE = 16

export type RunScript = <T>(script: Script<T>) => T

/** Runs scripts to completion on one connection and prepares each statement once. */
export function createRunScript(database: Database.Database): RunScript {
  const prepared = new Map<string, Database.Statement>()

  function prepare(sql: string): Database.Statement {
    let statement = prepared.get(sql)
    if (!statement) prepared.set(sql, (statement = database.prepare(sql)))
    return statement
  }

  function execute({ sql, parameters }: Statement): unknown[] {
    const statement = prepare(sql)
    if (statement.reader) return statement.all(...parameters)
    statement.run(...parameters)
    return []
  }

  function insert(step: BulkInsert): void {
    const [sample] = step.rows
    if (!sample) return
    const columns = Object.keys(sample)
    const many = step.rows.length < ROWS_AT_ONCE ? null : prepare(insertSql(step, columns, ROWS_AT_ONCE))
    const one = prepare(insertSql(step, columns, 1))
    for (let at = 0; at < step.rows.length; ) {
      const statement = many && step.rows.length - at >= ROWS_AT_ONCE ? many : one
      const end = at + (statement === many ? ROWS_AT_ONCE : 1)
      const values: unknown[] = []
      // One place builds all rows of an insert, so their keys have the same order.
      while (at < end) values.push(...Object.values(step.rows[at++] ?? {}))
      statement.run(values)
    }
  }

  return (script) => {
    let step = script.next()
    while (!step.done) {
      const rows = isBulkInsert(step.value) ? (insert(step.value), []) : execute(step.value)
      step = script.next(rows)
    }
    return step.value
  }
}

function insertSql({ table, onConflict }: BulkInsert, columns: readonly string[], count: number): string {
  const row = `(${columns.map(() => '?').join(', ')})`
  const rows = Array.from({ length: count }, () => row).join(', ')
  return `insert into ${table} (${columns.join(', ')}) values ${rows}${conflictClause(onConflict, columns)}`
}
