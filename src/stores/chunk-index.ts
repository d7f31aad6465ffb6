import type { IndexStore } from '../core/retrieval.ts'
import type { Database } from './database.ts'

export function createIndexStore(database: Database): IndexStore {
  return {
    files: (scope) => database.read('indexedFiles', scope),
    put: (scope, file, chunks) => database.write('putIndexed', { scope, file, chunks }),
    remove: (scope, paths) => database.write('removeIndexed', { scope, paths }),
    searchWords: (query) => database.read('searchWords', query),
    searchVectors: ({ vector, ...query }) =>
      database.read('searchVectors', { ...query, vector: bytesOf(vector) }),
    chunks: (scopes, ids) => database.read('indexedChunks', { scopes, ids }),
    unembedded: (embedder, limit) => database.read('unembedded', { embedder, limit }),
    setVectors: (embedder, vectors) =>
      database.write('setVectors', {
        embedder,
        vectors: vectors.map(({ no, vector }) => ({ no, vector: bytesOf(vector) })),
      }),
  }
}

function bytesOf(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
}
