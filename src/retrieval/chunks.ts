import { createHash } from 'node:crypto'
import type { NewChunk } from '../core/retrieval.ts'
import { wordsOf } from './words.ts'

/** The approximate size of a chunk: enough to understand it, small enough to send several. */
const CHARACTERS = 1000
/** The last lines of a chunk are also the first of the next, up to this many characters. */
const OVERLAP = 200
/** Longer lines are truncated: minified code is not worth reading. */
const LONGEST_LINE = 2000

/** Returns these lines of a text as a chunk contains them. */
export function linesOf(text: string, startLine: number, endLine: number): string {
  const lines = text.split('\n').slice(startLine - 1, endLine)
  return lines.map((line) => line.slice(0, LONGEST_LINE)).join('\n')
}

/** Splits a text into chunks of whole lines. */
export function chunksOf(path: string, text: string): NewChunk[] {
  const lines = text.split('\n').map((line) => line.slice(0, LONGEST_LINE))
  if (lines.at(-1) === '') lines.pop()
  const chunks: NewChunk[] = []
  for (let from = 0; from < lines.length; ) {
    let to = from
    for (let size = 0; to < lines.length && (to === from || size + lengthAt(lines, to) <= CHARACTERS); to++) {
      size += lengthAt(lines, to)
    }
    const piece = lines.slice(from, to).join('\n')
    if (piece.trim() !== '') chunks.push(chunkOf(path, piece, from + 1, to))
    if (to >= lines.length) break
    from = Math.max(from + 1, overlapStart(lines, from, to))
  }
  return chunks
}

function lengthAt(lines: readonly string[], index: number): number {
  return (lines[index]?.length ?? 0) + 1
}

function overlapStart(lines: readonly string[], from: number, to: number): number {
  let start = to
  for (let size = 0; start - 1 > from && size + lengthAt(lines, start - 1) <= OVERLAP; start--) {
    size += lengthAt(lines, start - 1)
  }
  return start
}

/** The id is a hash of path, position and text, so that an unchanged chunk keeps it. */
function chunkOf(path: string, text: string, startLine: number, endLine: number): NewChunk {
  const hash = createHash('sha256').update(`${path}\0${startLine}\0${text}`).digest('hex')
  return {
    id: `chk_${hash.slice(0, 24)}`,
    startLine,
    endLine,
    text,
    words: `${wordsOf(path).join(' ')} ${wordsOf(text).join(' ')}`,
  }
}
