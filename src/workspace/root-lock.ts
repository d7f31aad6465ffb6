import Database from 'better-sqlite3'

const WAIT_MS = 120_000

/**
 * Keeps other processes from changing files of the same folder, also those with a data folder of their own. A process that
 * is paused while it holds the lock keeps it, so nothing newer can be written that it would overwrite when it goes on; the
 * system releases the lock when the process ends. Waits for others, without a turn of the event loop.
 */
export function lockRoot(path: string): () => void {
  const database = new Database(path, { timeout: WAIT_MS })
  try {
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    throw error
  }
  return () => database.close()
}
