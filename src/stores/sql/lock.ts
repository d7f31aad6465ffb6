import type { Dialect } from './dialect.ts'
import { all, type Script } from './script.ts'

/**
 * Every script that changes a conversation locks its row first, and reads in a later statement. Locking and joining in
 * one statement would not do: on Postgres a row that changed while it was waited for is compared with the old rows of
 * the other tables, and a conversation whose head has moved would seem to be gone. Always in the order of the ids, so
 * that two processes don't wait for each other. SQLite has one writer and needs none of this.
 */
export function* lockConversations(
  { name, db, isIn, list, lockRows }: Dialect,
  which: readonly string[] | 'all',
): Script<void> {
  if (name === 'sqlite') return
  let query = db.selectFrom('conversations as c').select('c.id').orderBy('c.id')
  if (which !== 'all') query = query.where(isIn('c.id', list(which)))
  yield* all(query.modifyEnd(lockRows))
}
