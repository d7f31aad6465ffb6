import type { IndexStore } from '../core/retrieval.ts'
import { stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { writeOne } from './write-one.ts'

export function createIndexStore(engine: Engine): IndexStore {
  return {
    files: (scope) => stored(engine.read('indexedFiles', scope), 'read'),
    put: (scope, file, chunks) => stored(writeOne(engine, 'putIndexed', { scope, file, chunks })),
    remove: (scope, paths) => stored(writeOne(engine, 'removeIndexed', { scope, paths })),
    searchWords: (query) => stored(engine.read('searchWords', query), 'read'),
    searchVectors: ({ vector, ...query }) =>
      stored(engine.read('searchVectors', { ...query, vector: bytesOf(vector) }), 'read'),
    chunks: (scopes, ids) => stored(engine.read('indexedChunks', { scopes, ids }), 'read'),
    unembedded: (embedder, limit) => stored(engine.read('unembedded', { embedder, limit }), 'read'),
    setVectors: (embedder, vectors) =>
      stored(
        writeOne(engine, 'setVectors', {
          embedder,
          vectors: vectors.map(({ no, vector }) => ({ no, vector: bytesOf(vector) })),
        }),
      ),
  }
}

function bytesOf(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
}
