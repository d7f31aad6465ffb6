import type { OnConflict } from './script.ts'

/** The conflict clause that ends an insert statement. */
export function conflictClause(onConflict: OnConflict, columns: readonly string[]): string {
  if (onConflict === 'fail') return ''
  if (onConflict === 'skip') return ' on conflict do nothing'
  const changed = columns.filter((column) => !onConflict.includes(column))
  return ` on conflict (${onConflict.join(', ')}) do update set ${changed.map((c) => `${c} = excluded.${c}`).join(', ')}`
}
