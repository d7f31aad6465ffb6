import type { Dialect } from './dialect.ts'
import { all, type Script } from './script.ts'

/**
 * Every script that changes a conversation locks its row first, and reads in a later statement. Locking and joining in
 * one statement would fail on Postgres: it joins a row that changed during the wait with the old rows of the other
 * tables, so a conversation whose head has moved would seem not to exist. Rows are locked in id order, so that two
 * processes can't deadlock. SQLite has a single writer and needs no locks.
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
