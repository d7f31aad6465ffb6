import { type RawBuilder, sql } from 'kysely'

/** Matches the last event of a segment; a segment's end is derived, not stored. */
export function isLastOf(alias: string, segment: string): RawBuilder<boolean> {
  return sql`${sql.ref(`${alias}.seq`)} = (select max(seq) from events where segment = ${sql.ref(segment)})`
}
