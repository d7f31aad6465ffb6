import { randomBytes } from 'node:crypto'
import {
  closeSync,
  createReadStream,
  createWriteStream,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { runGit } from '../git/git.ts'
import { isInIndex } from './object-store.ts'
import type { SharedObjects } from './shared-objects.ts'
import { recordsOf } from './store-upkeep.ts'

/** Writes and reads checkpoints as a git bundle: one file that `git clone` accepts and another workspace can import. */

/** Limit for a bundle's header, which lists the refs; a bundle with a longer one isn't from Waymark. */
const MAX_HEAD_BYTES = 64 * 1024 * 1024

/** Writes every object that these checkpoints need. Returns false, and writes nothing, when there are none. */
export async function writeBundle(
  { git, store }: Pick<SharedObjects, 'git' | 'store'>,
  options: { checkpoints: readonly string[]; scratch: string; file: string; path: string },
): Promise<boolean> {
  const checkpoints = [...new Set(options.checkpoints)]
  if (checkpoints.length === 0) return false
  const records = await recordsOf(git, store, checkpoints)
  // `git bundle` requires refs: create a repository that has only refs and borrows the store's objects.
  const repository = join(options.scratch, `bundle-${randomBytes(6).toString('hex')}`)
  mkdirSync(join(repository, 'refs', 'heads'), { recursive: true })
  mkdirSync(join(repository, 'objects'))
  try {
    const named = [
      ...checkpoints.map((id) => `${id} refs/checkpoints/${id}\n`),
      ...records.map((id) => `${id} refs/records/${id}\n`),
    ]
    writeFileSync(join(repository, 'HEAD'), 'ref: refs/heads/none\n')
    writeFileSync(join(repository, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = true\n')
    // Git requires packed refs to be sorted by name.
    const sorted = named.sort((a, b) => (a.slice(41) < b.slice(41) ? -1 : 1))
    writeFileSync(
      join(repository, 'packed-refs'),
      `# pack-refs with: peeled fully-peeled sorted \n${sorted.join('')}`,
    )
    const args = ['bundle', 'create', '--quiet', options.file, '--all']
    await runGit({ gitDir: repository, objects: join(store, 'objects'), args, path: options.path })
    return true
  } finally {
    rmSync(repository, { recursive: true, force: true })
  }
}

/**
 * Imports a bundle's objects. The bundle is untrusted: git checks every object and rejects names that would lead out of a
 * folder or into `.git`. Nothing in it is executed, and nothing refers to it until the ledger does.
 */
export async function readBundle(
  { store, objects, mirror }: Pick<SharedObjects, 'store' | 'objects' | 'mirror'>,
  options: { file: string; checkpoints: readonly string[]; path: string },
): Promise<void> {
  const start = packStart(options.file)
  const folder = join(store, 'objects', 'pack')
  const aside = join(folder, `tmp_bundle_${randomBytes(6).toString('hex')}`)
  try {
    await pipeline(
      createReadStream(options.file, { start }),
      createWriteStream(`${aside}.pack`, { flags: 'wx', mode: 0o444 }),
    )
    const args = ['index-pack', '--strict', '-o', `${aside}.idx`, `${aside}.pack`]
    const printed = await runGit({ gitDir: store, args, path: options.path })
    const index = readFileSync(`${aside}.idx`)
    const missing = options.checkpoints.find((id) => !isInIndex(index, Buffer.from(id, 'hex')))
    if (missing !== undefined) throw new Error(`the checkpoint ${missing} is not in the file`)
    const name = `pack-${printed.toString().trim().split('\t').at(-1)}`
    await rename(`${aside}.pack`, join(folder, `${name}.pack`))
    await rename(`${aside}.idx`, join(folder, `${name}.idx`))
    objects.reload()
    await mirror?.push()
  } finally {
    for (const ending of ['pack', 'idx', 'rev']) rmSync(`${aside}.${ending}`, { force: true })
  }
}

/** Returns the offset of the pack, which starts after the empty line that ends the header. */
function packStart(file: string): number {
  const open = openSync(file, 'r')
  try {
    const piece = Buffer.alloc(64 * 1024)
    let text = ''
    while (text.length < MAX_HEAD_BYTES) {
      const read = readSync(open, piece, 0, piece.length, text.length)
      if (read === 0) break
      text += piece.toString('latin1', 0, read)
      if (!text.startsWith('# v2 git bundle\n')) break
      const end = text.indexOf('\n\n')
      if (end >= 0) {
        if (/\n-/.test(text.slice(0, end))) throw new Error('the bundle relies on objects that are not in it')
        return end + 2
      }
    }
    throw new Error('the checkpoints file is not a git bundle')
  } finally {
    closeSync(open)
  }
}
