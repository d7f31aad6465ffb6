import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createGit, type Git } from '../git/git.ts'
import { type ObjectStorage, openObjectStorage, type S3Place } from '../object-storage/s3.ts'
import { indexNames, isInIndex } from './object-store.ts'
import { syncFolder } from './pack.ts'
import { prepareStore } from './repository.ts'
import { recordsOf } from './store-upkeep.ts'

/**
 * Mirrors the packs of a workspace in object storage, so that processes with separate data folders share their checkpoints.
 *
 * A process uploads each pack that it writes before the checkpoint counts, and fetches the packs of other processes when an
 * object is missing. `mirror/` in the data folder has the index of each pack that is known to be mirrored.
 *
 * A collection replaces all packs with one. Meanwhile, another process may store a checkpoint that depends on an object that
 * the collection drops. So the collector writes a new *generation* before it lists the packs again and deletes the old ones,
 * and each process reads the generation after it uploads: either the collector sees the upload, or the uploader sees the
 * generation and uploads everything that its last checkpoints need.
 */
export interface PackMirror {
  /** Uploads local packs that are not mirrored yet. */
  push(): Promise<void>
  /** Fetches mirrored packs that are not local yet. */
  pull(): Promise<void>
  /** Fetches the pack that has this object; returns false when there is none. */
  find(oid: string): Promise<boolean>
  /** Marks the local packs as settled, because they were joined from mirrored packs. */
  adopt(): void
  /** True if another process has already collected for the same deletions and left few packs. */
  wasCollected(removed: number): Promise<boolean>
  /** After a collection, replaces the mirrored packs with the local ones. */
  replace(removed: number): Promise<void>
  /** Checkpoints of any process whose frames may not be stored yet. */
  recentCommits(): Promise<string[]>
  /** The number of mirrored packs that this process knows. */
  count(): number
  close(): void
}

export interface MirrorPlace {
  storage: S3Place
  workspaceId: string
  /** The frame of a younger checkpoint may not be stored yet. */
  recentMs?: number
}

const RECENT_MS = 60 * 60 * 1000
const AT_ONCE = 8
/** More mirrored packs than this are joined, because fetching all of them would take too long. */
export const MANY_MIRRORED = 500

interface Generation {
  id: string
  /** The number of checkpoints that the ledger had removed when the generation began. */
  removed: string
}

export function createPackMirror(
  { storage: place, workspaceId, recentMs = RECENT_MS }: MirrorPlace,
  { git, store, dataDir, reload }: { git: Git; store: string; dataDir: string; reload(): void },
): PackMirror {
  const folder = join(store, 'objects', 'pack')
  const known = join(dataDir, 'mirror')
  const prefix = `packs/${encodeURIComponent(workspaceId)}/`
  const generationKey = `${prefix}generation`
  mkdirSync(known, { recursive: true, mode: 0o700 })
  let opened: Promise<ObjectStorage> | null = null
  function storage(): Promise<ObjectStorage> {
    opened ??= openObjectStorage(place).catch((error: unknown) => {
      // Let the next call retry.
      opened = null
      throw error
    })
    return opened
  }
  /** True until the first push: packs of an earlier process may not be uploaded yet. */
  let isDirty = true
  let lastGeneration = readIfThere(join(known, 'generation'))

  const keyOf = (name: string) => `${prefix}${name}.pack`
  const packsHere = () => indexNames(folder).map((name) => name.replace(/\.idx$/, ''))
  /** The pack needs no upload: it is mirrored, or was joined from mirrored packs. */
  const isSettled = (name: string) =>
    existsSync(join(known, `${name}.idx`)) || existsSync(join(known, `${name}.settled`))
  const knownThere = () => indexNames(known).map((name) => name.replace(/\.idx$/, ''))

  async function packsThere(): Promise<string[]> {
    const names: string[] = []
    for await (const { key } of (await storage()).list(prefix)) {
      const name = key.slice(prefix.length).replace(/\.pack$/, '')
      if (/^pack-[0-9a-f]{40}$/.test(name)) names.push(name)
    }
    return names
  }

  async function upload(name: string, from = folder): Promise<void> {
    await (await storage()).putFile(keyOf(name), join(from, `${name}.pack`))
    copyFileSync(join(from, `${name}.idx`), join(known, `${name}.idx`))
  }

  /** Git builds the index, which also checks every object. */
  async function fetch(name: string): Promise<void> {
    const aside = join(folder, `tmp_fetched_${randomBytes(6).toString('hex')}`)
    try {
      if (!(await (await storage()).getFile(keyOf(name), `${aside}.pack`))) return
      const printed = await git.run(store, ['index-pack', '-o', `${aside}.idx`, `${aside}.pack`])
      const found = `pack-${printed.toString().trim().split('\t').at(-1)}`
      if (found !== name)
        throw new Error(`the pack ${name} in object storage has the wrong content (${found})`)
      renameSync(`${aside}.pack`, join(folder, `${name}.pack`))
      renameSync(`${aside}.idx`, join(folder, `${name}.idx`))
      syncFolder(folder)
      copyFileSync(join(folder, `${name}.idx`), join(known, `${name}.idx`))
    } finally {
      for (const ending of ['pack', 'idx', 'rev']) rmSync(`${aside}.${ending}`, { force: true })
    }
  }

  async function fetchAll(names: readonly string[]): Promise<void> {
    const waiting = [...names]
    const work = async () => {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) await fetch(name)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    if (names.length > 0) reload()
  }

  async function pull(): Promise<void> {
    const there = new Set(await packsThere())
    for (const name of knownThere()) if (!there.has(name)) forget(name)
    const missing = [...there].filter((name) => !existsSync(join(known, `${name}.idx`)))
    await fetchAll(missing)
  }

  const hasIt = (name: string, oid: string) =>
    isInIndex(readFileSync(join(known, `${name}.idx`)), Buffer.from(oid, 'hex'))

  /** Also fetches a pack that was local before: a killed collection may have dropped it too early. */
  async function find(oid: string): Promise<boolean> {
    const before = new Set(knownThere())
    await pull()
    const holder = knownThere().find((name) => hasIt(name, oid))
    if (holder === undefined) return false
    if (before.has(holder)) await fetchAll([holder])
    return true
  }

  /** Another process has collected the pack. A checkpoint that still needs its objects uploads them. */
  function forget(name: string): void {
    if (existsSync(join(folder, `${name}.idx`))) writeFileSync(join(known, `${name}.settled`), '')
    rmSync(join(known, `${name}.idx`), { force: true })
  }

  async function push(): Promise<void> {
    for (const name of packsHere().filter((one) => !isSettled(one))) {
      await upload(name)
      isDirty = true
    }
    if (!isDirty) return
    const { id } = await readGeneration()
    if (id !== lastGeneration) await catchUp()
    remember(id)
    isDirty = false
  }

  async function readGeneration(): Promise<Generation> {
    const found = await (await storage()).get(generationKey)
    const [id = '', removed = ''] = found?.toString().split(' ') ?? []
    return { id, removed }
  }

  function remember(id: string): void {
    if (id === lastGeneration) return
    writeFileSync(join(known, 'generation'), id)
    lastGeneration = id
  }

  /** Another process has collected: uploads objects that our last checkpoints need and the mirror has lost. */
  async function catchUp(): Promise<void> {
    await pull()
    const missing = await missingThere(await recentCommits(), knownThere())
    // Objects that are missing locally too can't be uploaded.
    const sent = missing.filter((oid) => !oid.startsWith('?'))
    if (sent.length === 0) return
    const base = join(dataDir, 'tmp', `mirror-${randomBytes(6).toString('hex')}`)
    mkdirSync(base, { recursive: true })
    try {
      const args = ['pack-objects', '--quiet', join(base, 'pack')]
      const made = (await git.run(store, args, `${sent.join('\n')}\n`)).toString().trim()
      for (const hash of made.split('\n')) await upload(`pack-${hash}`, base)
    } finally {
      rmSync(base, { recursive: true, force: true })
    }
  }

  async function recentCommits(): Promise<string[]> {
    const since = Math.floor((Date.now() - recentMs) / 1000)
    const all = await git.run(store, [
      'cat-file',
      '--batch-all-objects',
      '--batch-check=%(objecttype) %(objectname)',
    ])
    const commits = all
      .toString()
      .split('\n')
      .flatMap((line) => (line.startsWith('commit ') ? [line.slice(7)] : []))
    if (commits.length === 0) return []
    const args = ['log', '--no-walk', '--stdin', '--format=%H %ct']
    const dated = await git.run(store, args, `${commits.join('\n')}\n`)
    return dated
      .toString()
      .split('\n')
      .flatMap((line) => {
        const [id = '', at] = line.split(' ')
        return id !== '' && Number(at) >= since ? [id] : []
      })
  }

  /** Objects that these commits and their ancestors need and none of these packs has; `?` marks those missing locally. */
  async function missingThere(commits: readonly string[], packs: readonly string[]): Promise<string[]> {
    if (commits.length === 0) return []
    const indexes = packs.map((name) => readFileSync(join(known, `${name}.idx`)))
    const isThere = (oid: string) => {
      const bytes = Buffer.from(oid.replace('?', ''), 'hex')
      return indexes.some((index) => isInIndex(index, bytes))
    }
    const records = await recordsOf(git, store, commits)
    const roots = [...new Set([...commits, ...records])]
    const args = ['rev-list', '--objects', '--no-object-names', '--stdin', '--missing=print']
    const listed = await git.run(store, args, `${roots.join('\n')}\n`)
    return [...new Set(listed.toString().split('\n'))].filter((oid) => oid !== '' && !isThere(oid))
  }

  return {
    push,
    pull,
    find,
    adopt() {
      for (const name of packsHere()) if (!isSettled(name)) writeFileSync(join(known, `${name}.settled`), '')
      clearSettled()
    },
    recentCommits,
    wasCollected: async (removed) =>
      knownThere().length <= MANY_MIRRORED && (await readGeneration()).removed === `${removed}`,
    async replace(removed) {
      // Delete only packs that were local when the collection decided what to keep.
      const before = knownThere()
      const here = packsHere()
      for (const name of here) await upload(name)
      const id = randomBytes(12).toString('hex')
      await (await storage()).put(generationKey, Buffer.from(`${id} ${removed}`))
      remember(id)
      const dropped = before.filter((name) => !here.includes(name))
      const late = (await packsThere()).filter((name) => !here.includes(name) && !before.includes(name))
      await fetchAll(late)
      const missing = late.length === 0 ? [] : await missingThere(await recentCommits(), [...here, ...late])
      for (const name of dropped) {
        // A checkpoint stored meanwhile needs the old packs: keep them until the next collection, and fetch them again.
        if (missing.length === 0) await (await storage()).delete(keyOf(name))
        rmSync(join(known, `${name}.idx`), { force: true })
      }
      clearSettled()
    },
    count: () => knownThere().length,
    close() {
      void opened?.then((one) => one.close()).catch(() => {})
    },
  }

  /** Removes the marks of packs that no longer exist. */
  function clearSettled(): void {
    for (const name of readdirSync(known)) {
      if (name.endsWith('.settled') && !existsSync(join(folder, name.replace(/\.settled$/, '.idx')))) {
        rmSync(join(known, name), { force: true })
      }
    }
  }
}

/** Fetches all packs into the store of an empty data folder. */
export async function fetchPacks(dataDir: string, place: MirrorPlace & { path: string }): Promise<void> {
  const store = prepareStore(dataDir)
  const git = createGit({ store, path: place.path })
  const mirror = createPackMirror(place, { git, store, dataDir, reload: () => {} })
  try {
    await mirror.pull()
  } finally {
    mirror.close()
    git.close()
    rmSync(join(dataDir, 'mirror'), { recursive: true, force: true })
  }
}

function readIfThere(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : ''
}
