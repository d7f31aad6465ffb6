import type Database from 'better-sqlite3'
import type { Head } from '../sql/append.ts'

const MOST = 10_000

/**
 * The heads after the last appends: an append to a conversation that is being written to needs no read. Whatever
 * else writes makes it forget them all, be it another script, a transaction that failed, or another process.
 */
export function createKnownHeads(database: Database.Database) {
  const known = new Map<string, Head>()
  const version = database.prepare('pragma data_version').pluck()
  let seen: unknown

  function forget(): void {
    known.clear()
  }

  return {
    known,
    forget,
    /** Call it inside a transaction, where no other writer can interfere. */
    forgetIfForeign(): void {
      const now = version.get()
      if (now !== seen || known.size > MOST) forget()
      seen = now
    },
  }
}
