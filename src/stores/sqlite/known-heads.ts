import type Database from 'better-sqlite3'
import type { Head } from '../sql/lines/head.ts'

const MOST = 10_000

/**
 * Caches heads as the last appends left them, so that an append to an active conversation needs no read. Any other write
 * clears the cache: another script, a failed transaction, or another process.
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
