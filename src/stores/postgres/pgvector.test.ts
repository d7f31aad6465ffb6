import { PGlite } from '@electric-sql/pglite'
import { vector as pgvector } from '@electric-sql/pglite-pgvector'
import type { PoolClient } from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  putIndexed,
  removeIndexed,
  searchVectors,
  setVectors,
  unembedded,
  vectorTable,
} from '../sql/context/chunk-index.ts'
import { postgres } from '../sql/dialect.ts'
import { inWordsOf } from '../sql/migrate.ts'
import { contextTables } from '../sql/migrations/0005-context.ts'
import type { Script } from '../sql/script.ts'
import { runScript } from './run-script.ts'

/** A Postgres (PGlite) with the real pgvector extension. */
let db: PGlite
beforeAll(async () => {
  db = await PGlite.create({ extensions: { vector: pgvector } })
  for (const one of contextTables) {
    const statement = typeof one === 'string' ? one : one.postgres
    if (statement?.includes('index_')) await db.exec(inWordsOf('postgres', statement))
  }
  await db.exec('create extension vector')
  await db.exec(vectorTable)
}, 60_000)
afterAll(() => db.close())

const run = <T>(script: Script<T>) => runScript(db as unknown as PoolClient, script)
const bytes = (...floats: number[]) => new Uint8Array(Float32Array.from(floats).buffer)

it('compares vectors with the extension when it is installed', async () => {
  const file = { path: 'a.ts', sha256: 'x', language: null }
  const chunks = ['near', 'far'].map((id) => ({ id, startLine: 1, endLine: 1, text: id, words: id }))
  await run(putIndexed(postgres, { scope: 'w', file, chunks }))
  const waiting = await run(unembedded(postgres, { embedder: 'e', limit: 9 }))
  const vectors = waiting.map(({ no, text }) => ({
    no,
    vector: text === 'near' ? bytes(1, 0.1) : bytes(0, 1),
  }))
  await run(setVectors(postgres, { embedder: 'e', vectors }))
  const search = (...floats: number[]) =>
    run(
      searchVectors(postgres, {
        scopes: ['w'],
        paths: null,
        limit: 9,
        vector: bytes(...floats),
        embedder: 'e',
        minLikeness: -1,
      }),
    )
  expect((await search(1, 0)).map((hit) => hit.id)).toEqual(['near', 'far'])
  expect((await search(0, 1)).map((hit) => hit.id)).toEqual(['far', 'near'])
  const stored = await db.query<{ count: number }>('select count(*)::int as count from index_vectors')
  expect(stored.rows).toEqual([{ count: 2 }])
  // Unchanged chunks keep their vectors when the file is indexed again.
  await run(putIndexed(postgres, { scope: 'w', file: { ...file, sha256: 'y' }, chunks }))
  expect((await search(1, 0)).map((hit) => hit.id)).toEqual(['near', 'far'])
  await run(removeIndexed(postgres, { scope: 'w', paths: ['a.ts'] }))
  expect((await db.query('select * from index_vectors')).rows).toEqual([])
})
