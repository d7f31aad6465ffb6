import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

const MOST_FILES = 100_000

/** The files with a matching name, up to `depth` levels below the folder, sorted; none if it is missing. Follows no links. */
export async function filesBelow(
  folder: string,
  { depth, name }: { depth: number; name: RegExp },
): Promise<string[]> {
  const found: string[] = []
  async function walk(path: string, left: number): Promise<void> {
    const entries = await readdir(path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'EACCES') return []
      throw error
    })
    for (const entry of entries) {
      if (found.length >= MOST_FILES) return
      if (entry.isFile() && name.test(entry.name)) found.push(join(path, entry.name))
      else if (entry.isDirectory() && left > 1) await walk(join(path, entry.name), left - 1)
    }
  }
  await walk(folder, depth)
  return found.sort()
}
