import { sql } from 'kysely'
import type { ChunkHit, IndexedFile, IndexQuery, NewChunk } from '../../../core/retrieval.ts'
import type { Dialect } from '../dialect.ts'
import { all, first, type Script } from '../script.ts'

/** The file index: finds chunks by words, and by vectors if there are any. */

/** Created only if Postgres has the vector extension. */
export const vectorTable = `create table if not exists index_vectors (
  no bigint primary key references index_chunks (no) on delete cascade,
  vector vector not null
)`

export function* indexedFiles({ db }: Dialect, scope: string): Script<IndexedFile[]> {
  return yield* all(
    db
      .selectFrom('index_files')
      .select(['path', 'sha256', 'language'])
      .where('scope', '=', scope)
      .orderBy('path'),
  )
}

export function* putIndexed(
  dialect: Dialect,
  command: { scope: string; file: IndexedFile; chunks: readonly NewChunk[] },
): Script<void> {
  const { db } = dialect
  const { scope, file, chunks } = command
  const known = new Map<string, { embedder: string; vector: Uint8Array }>()
  for (const { id, embedder, vector } of yield* chunksAt(dialect, scope, file.path)) {
    if (embedder !== null && vector !== null) known.set(id, { embedder, vector })
  }
  const isCompared = dialect.name === 'postgres' && (yield* hasPgVector(dialect))
  yield* removeIndexed(dialect, { scope, paths: [file.path] })
  yield* all(db.insertInto('index_files').values({ scope, ...file }))
  for (const chunk of chunks) {
    // An unchanged chunk keeps its vector.
    const { embedder = null, vector = null } = known.get(chunk.id) ?? {}
    const row = yield* first(
      db
        .insertInto('index_chunks')
        .values({
          scope,
          path: file.path,
          id: chunk.id,
          start_line: chunk.startLine,
          end_line: chunk.endLine,
          content: storable(chunk.text),
          embedder,
          vector,
        })
        .returning('no'),
    )
    if (!row) continue
    yield* putWords(dialect, row.no, storable(chunk.words))
    if (isCompared && vector) yield* putVector(dialect, row.no, vector)
  }
}

/** Postgres text can contain neither NUL nor a lone surrogate. */
function storable(text: string): string {
  return text.replaceAll('\u0000', '').toWellFormed()
}

function* chunksAt({ db }: Dialect, scope: string, path: string) {
  return yield* all(
    db
      .selectFrom('index_chunks')
      .select(['no', 'id', 'embedder', 'vector'])
      .where('scope', '=', scope)
      .where('path', '=', path),
  )
}

function* putWords({ db, name }: Dialect, no: number, words: string): Script<void> {
  const value = name === 'sqlite' ? sql`${words}` : sql`to_tsvector('simple', ${words})`
  yield* all({
    compile: () => sql`insert into index_words (rowid, words) values (${no}, ${value})`.compile(db),
  })
}

export function* removeIndexed(
  dialect: Dialect,
  { scope, paths }: { scope: string; paths: readonly string[] },
): Script<void> {
  const { db } = dialect
  for (const path of paths) {
    for (const { no } of yield* chunksAt(dialect, scope, path)) {
      yield* all({ compile: () => sql`delete from index_words where rowid = ${no}`.compile(db) })
    }
    yield* all(db.deleteFrom('index_chunks').where('scope', '=', scope).where('path', '=', path))
    yield* all(db.deleteFrom('index_files').where('scope', '=', scope).where('path', '=', path))
  }
}

const columns = sql`c.id, c.scope, c.path, c.start_line as "startLine", c.end_line as "endLine", c.content as text`

function within({ isIn, list }: Dialect, { scopes, paths }: IndexQuery) {
  const inPaths = paths === null ? sql`1 = 1` : isIn('c.path', list(paths))
  return sql`${isIn('c.scope', list(scopes))} and ${inPaths}`
}

export function* searchWords(
  dialect: Dialect,
  query: IndexQuery & { terms: readonly string[] },
): Script<ChunkHit[]> {
  const { db, name } = dialect
  const where = within(dialect, query)
  // Letters and digits only: other characters can be operators in the engines' query languages.
  const terms = query.terms.filter((term) => /^[\p{L}\p{N}]+$/u.test(term))
  if (terms.length === 0) return []
  if (name === 'sqlite') {
    const match = terms.map((term) => `"${term}"`).join(' OR ')
    return yield* all({
      compile: () =>
        sql<ChunkHit>`select ${columns} from index_words w join index_chunks c on c.no = w.rowid
          where w.words match ${match} and ${where} order by bm25(index_words) limit ${query.limit}`.compile(
          db,
        ),
    })
  }
  const wanted = terms.map((term) => `'${term}'`).join(' | ')
  return yield* all({
    compile: () =>
      sql<ChunkHit>`select ${columns} from index_words w join index_chunks c on c.no = w.rowid,
          to_tsquery('simple', ${wanted}) as asked
        where w.words @@ asked and ${where}
        order by ts_rank(w.words, asked, 1) desc, c.no limit ${query.limit}`.compile(db),
  })
}

export function* indexedChunks(
  dialect: Dialect,
  { scopes, ids }: { scopes: readonly string[]; ids: readonly string[] },
): Script<ChunkHit[]> {
  const { db, isIn, list } = dialect
  return yield* all({
    compile: () =>
      sql<ChunkHit>`select ${columns} from index_chunks c
        where ${isIn('c.scope', list(scopes))} and ${isIn('c.id', list(ids))} order by c.no`.compile(db),
  })
}

export function* searchVectors(
  dialect: Dialect,
  query: IndexQuery & { vector: Uint8Array; embedder: string; minLikeness: number },
): Script<ChunkHit[]> {
  const { db, name } = dialect
  const mostDistant = 1 - query.minLikeness
  const where = sql`${within(dialect, query)} and c.embedder = ${query.embedder}`
  if (name === 'sqlite') {
    return yield* all({
      compile: () =>
        sql<ChunkHit>`select ${columns} from index_chunks c where ${where}
          and vec_distance_cosine(c.vector, ${query.vector}) <= ${mostDistant}
          order by vec_distance_cosine(c.vector, ${query.vector}), c.no limit ${query.limit}`.compile(db),
    })
  }
  if (yield* hasPgVector(dialect)) return yield* byPgVector(dialect, query, where)
  // Without the extension, compare every vector here: slower, but exact.
  const rows = yield* all({
    compile: () =>
      sql<{
        no: number
        vector: Uint8Array
      }>`select c.no, c.vector from index_chunks c where ${where}`.compile(db),
  })
  const asked = floatsIn(query.vector)
  const best = rows
    .map(({ no, vector }) => ({ no, likeness: cosine(floatsIn(vector), asked) }))
    .filter(({ likeness }) => likeness >= query.minLikeness)
    .toSorted((a, b) => b.likeness - a.likeness)
    .slice(0, query.limit)
  const hits: ChunkHit[] = []
  for (const { no } of best) {
    const hit = yield* first({
      compile: () => sql<ChunkHit>`select ${columns} from index_chunks c where c.no = ${no}`.compile(db),
    })
    if (hit) hits.push(hit)
  }
  return hits
}

function* hasPgVector({ db }: Dialect): Script<boolean> {
  const found = yield* first({
    compile: () =>
      sql<{
        one: number
      }>`select 1 as one from pg_tables where tablename = 'index_vectors' and schemaname = current_schema()`.compile(
        db,
      ),
  })
  return found !== undefined
}

/** Lets the extension compare the vectors. */
function* byPgVector(
  { db }: Dialect,
  query: IndexQuery & { vector: Uint8Array; minLikeness: number },
  where: ReturnType<typeof sql>,
): Script<ChunkHit[]> {
  const asked = `[${[...floatsIn(query.vector)].join(',')}]`
  return yield* all({
    compile: () =>
      sql<ChunkHit>`select ${columns} from index_chunks c join index_vectors v on v.no = c.no
        where ${where} and (v.vector <=> ${asked}::vector) <= ${1 - query.minLikeness}
        order by v.vector <=> ${asked}::vector, c.no limit ${query.limit}`.compile(db),
  })
}

export function* unembedded(
  { db }: Dialect,
  query: { embedder: string; limit: number },
): Script<{ no: number; path: string; text: string }[]> {
  return yield* all(
    db
      .selectFrom('index_chunks')
      .select(['no', 'path', 'content as text'])
      .where((eb) => eb.or([eb('embedder', 'is', null), eb('embedder', '!=', query.embedder)]))
      .orderBy('no', 'desc')
      .limit(query.limit),
  )
}

export function* setVectors(
  dialect: Dialect,
  command: { embedder: string; vectors: readonly { no: number; vector: Uint8Array }[] },
): Script<void> {
  const { db, name } = dialect
  const isIndexed = name === 'postgres' && (yield* hasPgVector(dialect))
  for (const { no, vector } of command.vectors) {
    yield* all(
      db.updateTable('index_chunks').set({ embedder: command.embedder, vector }).where('no', '=', no),
    )
    if (isIndexed) yield* putVector(dialect, no, vector)
  }
}

function* putVector({ db }: Dialect, no: number, vector: Uint8Array): Script<void> {
  const text = `[${[...floatsIn(vector)].join(',')}]`
  yield* all({
    compile: () =>
      sql`insert into index_vectors (no, vector) select no, ${text}::vector from index_chunks where no = ${no}
        on conflict (no) do update set vector = excluded.vector`.compile(db),
  })
}

function floatsIn(bytes: Uint8Array): Float32Array {
  // Copy the bytes: a Float32Array must start at a multiple of four.
  return new Float32Array(Uint8Array.from(bytes).buffer)
}

export function cosine(a: Float32Array, b: Float32Array): number {
  let [product, lengthA, lengthB] = [0, 0, 0]
  for (let at = 0; at < a.length; at++) {
    const [x, y] = [a[at] ?? 0, b[at] ?? 0]
    product += x * y
    lengthA += x * x
    lengthB += y * y
  }
  return product / (Math.sqrt(lengthA * lengthB) || 1)
}
