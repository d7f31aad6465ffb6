import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import Database from 'better-sqlite3'

export const DATABASE_FILE = 'waymark.db'

/** Uses SQLite's online backup: it copies a few pages at a time, and the copy is consistent despite concurrent writes. */
export async function backupSqlite(path: string, folder: string): Promise<void> {
  const database = new Database(path, { readonly: true, fileMustExist: true })
  try {
    await database.backup(join(folder, DATABASE_FILE))
  } finally {
    database.close()
  }
}

export async function restoreSqlite(folder: string, path: string): Promise<void> {
  await copyFile(join(folder, DATABASE_FILE), path)
}
