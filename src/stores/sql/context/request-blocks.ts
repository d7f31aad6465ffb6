import { sql } from 'kysely'
import type { Dialect } from '../dialect.ts'
import { all, first, type Script } from '../script.ts'

/**
 * A block of a long request. A server that doesn't store responses receives the whole history each time, so requests of one
 * conversation share a prefix: each block is stored once, with a count of its uses.
 */
export interface RequestBlock {
  hash: string
  /** Null for a block that is already stored. */
  bytes: Uint8Array | null
}

/**
 * How a long request is stored. With a base, the blocks hold only the bytes between what it shares with the beginning and the
 * end of that request.
 */
export interface RequestLayout {
  blocks: string[]
  base: { id: string; prefix: number; suffix: number } | null
}

/** A layout without a base is written as a list of hashes. */
export function writeLayout({ blocks, base }: RequestLayout): string {
  return JSON.stringify(base ? { blocks, base } : blocks)
}

export function readLayout(text: string | null): RequestLayout {
  const value = JSON.parse(text ?? '[]') as string[] | RequestLayout
  return Array.isArray(value) ? { blocks: value, base: null } : value
}

export function* knownBlocks({ db, isIn, list }: Dialect, hashes: readonly string[]): Script<string[]> {
  const rows = yield* all(
    db
      .selectFrom('request_blocks as b')
      .select('b.hash')
      .where(isIn('b.hash', list(hashes))),
  )
  return rows.map((row) => row.hash)
}

/** Updates blocks in hash order, so that transactions can't deadlock. False if one was collected in the meantime. */
export function* useBlocks({ db }: Dialect, blocks: readonly RequestBlock[]): Script<boolean> {
  const uses = new Map<string, number>()
  for (const { hash } of blocks) uses.set(hash, (uses.get(hash) ?? 0) + 1)
  const distinct = new Map(blocks.map((block) => [block.hash, block]))
  for (const { hash, bytes } of [...distinct.values()].sort(byHash)) {
    const more = uses.get(hash) ?? 0
    const used = yield* all(
      db
        .updateTable('request_blocks')
        .set({ uses: sql<number>`uses + ${more}` })
        .where('hash', '=', hash)
        .returning('hash'),
    )
    if (used.length > 0) continue
    if (bytes === null) return false
    yield* all(
      db
        .insertInto('request_blocks')
        .values({ hash, bytes, uses: more })
        .onConflict((conflict) =>
          conflict.column('hash').doUpdateSet({ uses: sql<number>`request_blocks.uses + ${more}` }),
        ),
    )
  }
  return true
}

export function* readBlocks({ db }: Dialect, hashes: readonly string[]): Script<Uint8Array[]> {
  const found: Uint8Array[] = []
  for (const hash of hashes) {
    const row = yield* first(db.selectFrom('request_blocks').select('bytes').where('hash', '=', hash))
    if (!row) throw new Error(`the request block ${hash} is missing`)
    found.push(row.bytes)
  }
  return found
}

export function* releaseBlocks(
  { db }: Dialect,
  requests: readonly { request_blocks: string | null }[],
): Script<void> {
  const hashes = requests.flatMap((one) => readLayout(one.request_blocks).blocks)
  for (const hash of hashes.toSorted()) {
    yield* all(db.updateTable('request_blocks').set({ uses: sql<number>`uses - 1` }).where('hash', '=', hash))
  }
  yield* all(db.deleteFrom('request_blocks').where('uses', '<=', 0))
}

function byHash(a: RequestBlock, b: RequestBlock): number {
  return a.hash < b.hash ? -1 : 1
}
