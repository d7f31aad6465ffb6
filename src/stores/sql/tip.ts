import { type RawBuilder, sql } from 'kysely'

/** That this row of `events` is the last of its segment: where the segment ends is derived, not kept. */
export function isLastOf(alias: string, segment: string): RawBuilder<boolean> {
  return sql`${sql.ref(`${alias}.seq`)} = (select max(seq) from events where segment = ${sql.ref(segment)})`
}
