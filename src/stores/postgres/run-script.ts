import type { PoolClient } from 'pg'
import { conflictClause } from '../sql/conflict-clause.ts'
import { bulkTypes } from '../sql/schema.ts'
import { type BulkInsert, isBulkInsert, type Script } from '../sql/script.ts'

export async function runScript<T>(client: PoolClient, script: Script<T>): Promise<T> {
  let step = script.next()
  while (!step.done) {
    const { text, values } = isBulkInsert(step.value)
      ? bulkInsert(step.value)
      : { text: step.value.sql, values: step.value.parameters.map(asParameter) }
    const { rows } = await client.query(text, values)
    step = script.next(rows)
  }
  return step.value
}

/** One array per column keeps the statement the same for any number of rows. */
function bulkInsert(step: BulkInsert): { text: string; values: unknown[][] } {
  const types: Record<string, string> = bulkTypes[step.table]
  const columns = Object.keys(types)
  const arrays = columns.map((column, index) => `$${index + 1}::${types[column]}[]`)
  return {
    text:
      `insert into ${step.table} (${columns.join(', ')}) select * from unnest(${arrays.join(', ')})` +
      conflictClause(step.onConflict, columns),
    values: columns.map((column) => step.rows.map((row) => asParameter(row[column]))),
  }
}

function asParameter(value: unknown): unknown {
  return value instanceof Uint8Array && !Buffer.isBuffer(value) ? Buffer.from(value) : value
}
