import Database from 'better-sqlite3'

const WAIT_MS = 120_000

/**
 * Locks the folder's files against changes by other processes, including those with another data folder. A paused process
 * keeps the lock, so that it can't overwrite newer files when it resumes; the system releases the lock when the process
 * ends. Waits for the lock synchronously, which blocks the event loop.
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
