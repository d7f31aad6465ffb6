import type { AnyFrame } from '../../src/protocol/frames.ts'
import { applyFrames } from '../../src/replay/reduce.ts'
import { emptyTranscript, type Transcript } from '../../src/replay/transcript.ts'
import { server } from '../server.ts'

/** Random access to a conversation's ledger, read and cached in blocks. */
export interface FrameSource {
  frame(at: number): Promise<AnyFrame | undefined>
  /** The transcript at an event; only the end of a long one. */
  transcript(at: number): Promise<Transcript>
}

const BLOCK = 500
const AT_LEAST = 200

export function createFrameSource(conversationId: string): FrameSource {
  const blocks = new Map<number, { reading: Promise<AnyFrame[]>; upTo: number }>()

  /** Reads a block. The last block still grows, so it is read again when it does not reach `at`. */
  function block(number: number, at = Number.POSITIVE_INFINITY): Promise<AnyFrame[]> {
    const known = blocks.get(number)
    const last = (number + 1) * BLOCK
    if (known && known.upTo >= Math.min(at, last)) return known.reading
    const entry = { reading: read(conversationId, number * BLOCK + 1, last), upTo: last }
    blocks.set(number, entry)
    entry.reading.then(
      (frames) => {
        entry.upTo = frames.at(-1)?.event_id ?? 0
      },
      // Retry a failed block on the next request.
      () => blocks.delete(number),
    )
    return entry.reading
  }

  return {
    async frame(at) {
      return (await block(blockOf(at), at)).find((frame) => frame.event_id === at)
    },
    async transcript(at) {
      /** Newest block first. */
      const found: AnyFrame[][] = []
      for (let number = blockOf(at); ; number--) {
        const frames = (await block(number, Math.min(at, (number + 1) * BLOCK))).filter(
          (frame) => frame.event_id <= at,
        )
        const start = number === 0 ? 0 : frames.findIndex((frame) => frame.kind === 'message.user')
        const isEnough = number === 0 || (start >= 0 && at - (frames[start]?.event_id ?? 0) >= AT_LEAST)
        found.push(isEnough ? frames.slice(start) : frames)
        if (!isEnough) continue
        const from = found.at(-1)?.[0]?.event_id ?? 1
        return applyFrames(emptyTranscript(from), found.toReversed().flat())
      }
    },
  }
}

function blockOf(at: number): number {
  return Math.floor((at - 1) / BLOCK)
}

/** Pages are also limited in bytes, so a block may take several. */
async function read(conversationId: string, from: number, to: number): Promise<AnyFrame[]> {
  const pages: AnyFrame[][] = []
  for (let before = to + 1; before > from; ) {
    const { items } = await server.events(conversationId, { before, limit: Math.min(BLOCK, before - from) })
    const wanted = (items as AnyFrame[]).filter((frame) => frame.event_id >= from && frame.event_id < before)
    const [first] = wanted
    if (!first) break
    pages.push(wanted)
    before = first.event_id
  }
  return pages.toReversed().flat()
}
