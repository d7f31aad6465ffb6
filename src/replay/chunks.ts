import type { Frame } from '../protocol/frames.ts'
import type { PlacedItem } from './new-item.ts'
import type { ChunkedValue } from './transcript.ts'

/** Reassembles a chunked value under the field it belongs to. */
export function addChunk(item: PlacedItem, frame: Frame<'chunk.delta' | 'chunk.done'>): PlacedItem {
  const { field, part_index } = frame.target
  const name = part_index === undefined ? field : `${field}.${part_index}`
  const known = Object.hasOwn(item.chunks, name) ? item.chunks[name] : undefined
  const before = known ?? { encoding: frame.encoding ?? 'utf8', data: '', pieces: 0, done: false }
  return { ...item, chunks: { ...item.chunks, [name]: withPiece(before, frame) } }
}

function withPiece(value: ChunkedValue, frame: Frame<'chunk.delta' | 'chunk.done'>): ChunkedValue {
  const isNext = frame.data !== undefined && (frame.chunk_index ?? value.pieces) === value.pieces
  return {
    encoding: value.encoding,
    // Frames come in order; a repeated chunk is skipped.
    data: isNext ? value.data + frame.data : value.data,
    pieces: isNext ? value.pieces + 1 : value.pieces,
    done: value.done || frame.kind === 'chunk.done',
  }
}
