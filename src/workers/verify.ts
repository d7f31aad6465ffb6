import { chainDigest, genesis } from '../core/seal.ts'
import type { EventRecord, SegmentRecord, Upkeep } from '../core/upkeep.ts'
import { isTerminalKind } from '../protocol/frame-kinds.ts'
import type { AnyFrame } from '../protocol/frames.ts'

export interface Flaw {
  segmentId: string
  conversationId: string
  seq: number
  flaw: string
}

export interface Verified {
  segments: number
  events: number
  /** Contents stored under their hash, outside the frames' rows. */
  contents: number
  flaws: Flaw[]
  /** Contents that are missing or damaged. */
  damaged: { key: string; flaw: string }[]
}

/** Verifies everything that the ledger guarantees about its stored events (L2, L4, L5, L9). */
export async function verifyLedger(
  upkeep: Upkeep,
  onProgress: (verified: Verified) => void = () => {},
): Promise<Verified> {
  const verified: Verified = { segments: 0, events: 0, contents: 0, flaws: [], damaged: [] }
  for await (const segment of upkeep.segments()) {
    await verifySegment(upkeep, segment, verified)
    verified.segments++
    onProgress(verified)
  }
  for await (const { key, flaw } of upkeep.contents()) {
    verified.contents++
    if (flaw !== null) verified.damaged.push({ key, flaw })
    onProgress(verified)
  }
  return verified
}

async function verifySegment(upkeep: Upkeep, segment: SegmentRecord, verified: Verified): Promise<void> {
  const { segmentId, conversationId } = segment
  // Both are read at one moment; events appended later come after them.
  const { runs: recorded, seq: end } = await upkeep.books(segment.segment)
  // All its events were collected: only its place is still known.
  if (segment.collectedTo !== null && end === segment.cut) return
  const say = (seq: number, flaw: string) => verified.flaws.push({ segmentId, conversationId, seq, flaw })
  const start = segment.parent === null ? genesis.digest : segment.parentDigest
  if (!start) return void say(segment.cut, 'the event it was cut at is missing from its parent')

  const runs = new Map<string, { frames: number; ended: boolean }>()
  let seq = segment.cut
  let bytes: number | null = null
  let digest: Uint8Array = start
  for await (const event of upkeep.events(segment.segment, segment.cut, end)) {
    verified.events++
    if (event.seq !== ++seq) return void say(seq, `the next event is ${event.seq}`)
    if (event.frame instanceof Error) return void say(seq, event.frame.message)
    const chained = chainDigest(digest, event.frame)
    if (!sameBytes(chained.digest, event.digest)) return void say(seq, 'the digest does not match the frame')
    if (bytes !== null && bytes !== event.bytesBefore) say(seq, 'the byte count is wrong')
    for (const flaw of frameFlaws(event, segment, runs)) say(seq, flaw)
    digest = chained.digest
    bytes = event.bytesBefore + chained.bytes
  }
  if (seq !== end) say(seq, `the segment ends here, not at ${end}`)
  if (seq === segment.cut) say(seq, 'the segment is empty')
  // The digest chain can't reveal that its end is missing. Runs can: they count their frames elsewhere.
  for (const run of recorded) {
    const found = runs.get(run.id) ?? { frames: 0, ended: false }
    if (found.frames < run.frames) say(seq, `the run ${run.id} has ${found.frames} of ${run.frames} frames`)
    if (run.ended && !found.ended) say(seq, `the run ${run.id} has lost its terminal frame`)
  }
}

function* frameFlaws(
  event: EventRecord,
  segment: SegmentRecord,
  runs: Map<string, { frames: number; ended: boolean }>,
): Generator<string> {
  const frame = parse(event.frame as string)
  if (!frame) return yield 'the frame is not JSON'
  if (frame.event_id !== event.seq) yield `the frame has the event number ${frame.event_id}`
  if (frame.conversation_id !== segment.conversationId) yield 'the frame names another conversation'
  if (frame.stream_id === null) return
  const run = runs.get(frame.stream_id) ?? { frames: 0, ended: false }
  runs.set(frame.stream_id, run)
  if (run.ended) yield `the run ${frame.stream_id} continues after its terminal frame`
  if (frame.sequence_number !== ++run.frames) yield `the run ${frame.stream_id} is not numbered 1, 2, 3 …`
  if (isTerminalKind(frame.kind)) run.ended = true
}

function parse(text: string): AnyFrame | null {
  try {
    return JSON.parse(text) as AnyFrame
  } catch {
    return null
  }
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
