import type Database from 'better-sqlite3'
import { conflictClause } from '../sql/conflict-clause.ts'
import { type BulkInsert, isBulkInsert, type Script, type Statement } from '../sql/script.ts'

export type RunScript = <T>(script: Script<T>) => T

/** Runs scripts on one connection, to their end, with each statement prepared once. */
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
    const statement = prepare(insertSql(step, columns))
    // Rows of one insert are made in one place, so their keys come in one order.
    for (const row of step.rows) statement.run(Object.values(row))
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

function insertSql({ table, replace }: BulkInsert, columns: readonly string[]): string {
  const values = columns.map(() => '?').join(', ')
  return `insert into ${table} (${columns.join(', ')}) values (${values})${conflictClause(replace, columns)}`
}
