import { sql } from 'kysely'
import type { Dialect } from './dialect.ts'
import { all, first, type Script } from './script.ts'

/**
 * Long requests, in blocks. A server that keeps nothing is sent the whole history each time, and requests of one conversation
 * share their beginning: each block is stored once, with a count of its uses.
 */
export interface RequestBlock {
  hash: string
  /** Null for one that was found to be stored. */
  bytes: Uint8Array | null
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

/** In the order of their hashes, so that two transactions never wait for each other. False when one has gone since. */
export function* useBlocks({ db }: Dialect, blocks: readonly RequestBlock[]): Script<boolean> {
  for (const { hash, bytes } of blocks.toSorted(byHash)) {
    const used = yield* all(
      db
        .updateTable('request_blocks')
        .set({ uses: sql<number>`uses + 1` })
        .where('hash', '=', hash)
        .returning('hash'),
    )
    if (used.length > 0) continue
    if (bytes === null) return false
    yield* all(
      db
        .insertInto('request_blocks')
        .values({ hash, bytes, uses: 1 })
        .onConflict((conflict) =>
          conflict.column('hash').doUpdateSet({ uses: sql<number>`request_blocks.uses + 1` }),
        ),
    )
  }
  return true
}

export function* readBlocks({ db }: Dialect, hashes: readonly string[]): Script<Uint8Array[]> {
  const found: Uint8Array[] = []
  for (const hash of hashes) {
    const row = yield* first(db.selectFrom('request_blocks').select('bytes').where('hash', '=', hash))
    if (!row) throw new Error(`the block ${hash} of a request is missing`)
    found.push(row.bytes)
  }
  return found
}

export function* releaseBlocks(
  { db }: Dialect,
  requests: readonly { request_blocks: string | null }[],
): Script<void> {
  const hashes = requests.flatMap((one) => JSON.parse(one.request_blocks ?? '[]') as string[])
  for (const hash of hashes.toSorted()) {
    yield* all(db.updateTable('request_blocks').set({ uses: sql<number>`uses - 1` }).where('hash', '=', hash))
  }
  yield* all(db.deleteFrom('request_blocks').where('uses', '<=', 0))
}

function byHash(a: RequestBlock, b: RequestBlock): number {
  return a.hash < b.hash ? -1 : 1
}
