/** The index and its search: chunks of files, found by words and by meaning (C7). */

/** Limits which files a search considers. */
export interface RagScope {
  /** Globs, such as `src/**`. */
  paths?: string[] | undefined
  languages?: string[] | undefined
  /** The repository, by the workspace's name. */
  repo?: string | undefined
}

export interface NewChunk {
  id: string
  startLine: number
  endLine: number
  text: string
  /** The text as search words. */
  words: string
}

export interface IndexedFile {
  path: string
  sha256: string
  language: string | null
}

export interface ChunkHit {
  id: string
  scope: string
  path: string
  startLine: number
  endLine: number
  text: string
}

/** An index is divided into scopes: a workspace, or an attachment. */
export interface IndexStore {
  files(scope: string): Promise<IndexedFile[]>
  /** Replaces the file's earlier chunks. */
  put(scope: string, file: IndexedFile, chunks: readonly NewChunk[]): Promise<void>
  remove(scope: string, paths: readonly string[]): Promise<void>
  /** Best match first. */
  searchWords(query: IndexQuery & { terms: readonly string[] }): Promise<ChunkHit[]>
  /** Chunks whose vectors have at least this cosine similarity. */
  searchVectors(
    query: IndexQuery & { vector: Float32Array; embedder: string; minLikeness: number },
  ): Promise<ChunkHit[]>
  /** Those of these chunks that are still indexed. */
  chunks(scopes: readonly string[], ids: readonly string[]): Promise<ChunkHit[]>
  /** Chunks that this embedder has not embedded yet. */
  unembedded(embedder: string, limit: number): Promise<{ no: number; path: string; text: string }[]>
  setVectors(embedder: string, vectors: readonly { no: number; vector: Float32Array }[]): Promise<void>
}

export interface IndexQuery {
  scopes: readonly string[]
  /** Only these paths; null for all. */
  paths: readonly string[] | null
  limit: number
}

/** Turns texts into vectors, off the event loop. */
export interface Embedder {
  name: string
  embed(texts: readonly string[], urgency: 'now' | 'later'): Promise<Float32Array[]>
  close(): Promise<void>
}

/** The constant of reciprocal rank fusion: the larger it is, the less the first ranks outweigh the next. */
const RANK_OFFSET = 60

/** Merges rankings: hits near the top of several rankings come first. */
export function mergeRanks<T>(
  rankings: readonly (readonly T[])[],
  keyOf: (hit: T) => string,
): { hit: T; score: number }[] {
  const scores = new Map<string, { hit: T; score: number }>()
  for (const ranking of rankings) {
    for (const [index, hit] of ranking.entries()) {
      const known = scores.get(keyOf(hit)) ?? { hit, score: 0 }
      known.score += 1 / (RANK_OFFSET + index + 1)
      scores.set(keyOf(hit), known)
    }
  }
  return [...scores.values()].toSorted((a, b) => b.score - a.score)
}
