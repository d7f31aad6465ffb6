import Database from 'better-sqlite3'

/**
 * Locks a file until the returned function is called or the process ends, even by a crash: the operating system releases
 * the lock, so no lock outlives its process. Null when another process holds the lock.
 */
export function holdAlone(path: string): (() => void) | null {
  const database = new Database(path, { timeout: 0 })
  try {
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return null
    throw error
  }
  return () => database.close()
}
