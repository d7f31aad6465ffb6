/** The end of an insert that overwrites the row with the same key; nothing when there must be none. */
export function conflictClause(replace: readonly string[] | null, columns: readonly string[]): string {
  if (!replace) return ''
  const changed = columns.filter((column) => !replace.includes(column))
  return ` on conflict (${replace.join(', ')}) do update set ${changed.map((c) => `${c} = excluded.${c}`).join(', ')}`
}
