import { createReadStream } from 'node:fs'
import { parseBoundedJson } from '../core/bounded-json.ts'
import { MAX_SESSION_LINE } from '../protocol/api/agent-sessions.ts'

const NEWLINE = 10

/** A line that can't be used, as it is; only its size if it is too long. */
export interface OddLine {
  problem: string
  kept: { text: string } | { bytes: number }
}

/** The values of a file with one JSON value a line. A last line without its end is not complete yet, and is left out. */
export async function* jsonLines(file: string): AsyncGenerator<{ value: unknown } | OddLine> {
  let pieces: Buffer[] = []
  let length = 0
  const stream = createReadStream(file, { highWaterMark: 256 * 1024 })
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      pieces.push(chunk.subarray(from, end))
      length += end - from
      from = end + 1
      const line = length > MAX_SESSION_LINE ? null : Buffer.concat(pieces).toString('utf8')
      const bytes = length
      pieces = []
      length = 0
      if (line === null) yield { problem: 'oversized', kept: { bytes } }
      else if (line.trim() !== '') yield parsed(line)
    }
    length += chunk.length - from
    // A line that is too long is counted, and not kept.
    if (length > MAX_SESSION_LINE) pieces = []
    else pieces.push(chunk.subarray(from))
  }
}

function parsed(text: string): { value: unknown } | OddLine {
  try {
    return { value: parseBoundedJson(text) }
  } catch {
    return { problem: 'not readable', kept: { text } }
  }
}
