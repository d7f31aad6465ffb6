import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Git } from '../git/git.ts'
import { RECORD } from './commit.ts'
import { syncFolder } from './pack.ts'

/** Keeps the object store small: joins packs, and drops unreachable objects. */

export interface StoreSize {
  packs: number
  bytes: number
}

export interface Collected {
  before: StoreSize
  after: StoreSize
}

interface Pack {
  name: string
  bytes: number
}

/** Writes every object that the roots reach into one pack and drops the others. Fails, and drops none, if one is missing. */
export async function collect(options: {
  git: Git
  store: string
  checkpoints: readonly string[]
  /** Other objects to keep. */
  others: readonly string[]
}): Promise<Collected> {
  const { git, store, checkpoints, others } = options
  const before = packsIn(store)
  const records = checkpoints.length === 0 ? [] : await recordsOf(git, store, checkpoints)
  const roots = [...checkpoints, ...records, ...others]
  const args = ['pack-objects', '--revs', '--quiet', '--delta-base-offset', packBase(store)]
  const made = await git.run(store, args, `${[...new Set(roots)].join('\n')}\n`)
  drop(store, before, made)
  return { before: sizeOf(before), after: sizeOfStore(store) }
}

/** The records that checkpoints and their ancestors name in their messages: git does not follow these by itself. */
export async function recordsOf(git: Git, store: string, checkpoints: readonly string[]): Promise<string[]> {
  const format = `--format=%(trailers:key=${RECORD},valueonly)`
  const printed = await git.run(store, ['log', '--stdin', format], `${checkpoints.join('\n')}\n`)
  return [...new Set(printed.toString().split('\n'))].filter((line) => line !== '')
}

/** Joins the smaller packs into one. Nothing is dropped. */
export async function joinPacks({ git, store }: { git: Git; store: string }): Promise<void> {
  const packs = packsIn(store).sort((a, b) => a.bytes - b.bytes)
  const half = sizeOf(packs).bytes / 2
  const smaller = packs.filter((pack) => pack.bytes < half)
  const joined = smaller.length > 1 ? smaller : packs
  // Small objects were stored uncompressed; this compresses them.
  const args = [
    'pack-objects',
    '--stdin-packs',
    '--no-reuse-object',
    '--quiet',
    '--delta-base-offset',
    packBase(store),
  ]
  const made = await git.run(store, args, `${joined.map((pack) => `${pack.name}.pack`).join('\n')}\n`)
  drop(store, joined, made)
}

export function sizeOfStore(store: string): StoreSize {
  return sizeOf(packsIn(store))
}

function drop(store: string, packs: readonly Pack[], made: Buffer): void {
  const kept = new Set(
    made
      .toString()
      .trim()
      .split('\n')
      .map((hash) => `pack-${hash}`),
  )
  const folder = join(store, 'objects', 'pack')
  for (const name of kept) {
    if (!existsSync(join(folder, `${name}.idx`)) || !existsSync(join(folder, `${name}.pack`))) {
      throw new Error(`the new pack ${name} is missing; the old packs are kept`)
    }
  }
  // Make the new pack durable before the old ones are deleted.
  syncFolder(folder)
  for (const { name } of packs) {
    if (kept.has(name)) continue
    for (const ending of ['idx', 'rev', 'pack']) rmSync(join(folder, `${name}.${ending}`), { force: true })
  }
}

function packBase(store: string): string {
  return join(store, 'objects', 'pack', 'pack')
}

function packsIn(store: string): Pack[] {
  const folder = join(store, 'objects', 'pack')
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names
    .filter((name) => name.endsWith('.pack') && names.includes(name.replace(/\.pack$/, '.idx')))
    .map((name) => ({
      name: name.replace(/\.pack$/, ''),
      bytes: statSync(join(folder, name)).size + statSync(join(folder, name.replace(/\.pack$/, '.idx'))).size,
    }))
}

function sizeOf(packs: readonly Pack[]): StoreSize {
  return { packs: packs.length, bytes: packs.reduce((sum, pack) => sum + pack.bytes, 0) }
}
