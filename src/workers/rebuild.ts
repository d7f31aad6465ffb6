import { emptyRows, projectFrame } from '../core/projection.ts'
import type { SegmentRecord, Upkeep } from '../core/upkeep.ts'
import type { AnyFrame } from '../protocol/frames.ts'

const EVENTS_A_STEP = 2000

/** Forgets the projections and makes them again from the ledger. Appends may go on meanwhile. */
export async function rebuildProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  await upkeep.dropProjections()
  return await catchUpProjections(upkeep, onProgress)
}

/** Projects what is not projected yet: after a rebuild that was cut short, this carries it on. */
export async function catchUpProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  let events = 0
  let behind: number
  do {
    behind = 0
    for await (const segment of upkeep.segments({ onlyUnprojected: true })) {
      behind += await catchUpSegment(upkeep, segment)
      onProgress(events + behind)
    }
    events += behind
    // What was appended meanwhile waits for its turn too, so look again until nothing is left.
  } while (behind > 0)
  return events
}

async function catchUpSegment(upkeep: Upkeep, segment: SegmentRecord): Promise<number> {
  let from = segment.projectedSeq
  while (from < segment.seq) {
    const to = Math.min(from + EVENTS_A_STEP, segment.seq)
    from = await projectStep(upkeep, segment, from, to)
  }
  return segment.seq - segment.projectedSeq
}

async function projectStep(
  upkeep: Upkeep,
  segment: SegmentRecord,
  from: number,
  to: number,
): Promise<number> {
  const rows = emptyRows()
  for await (const event of upkeep.events(segment.segment, from, to)) {
    if (event.frame instanceof Error) throw event.frame
    const frame = JSON.parse(event.frame) as AnyFrame & Record<string, unknown>
    const place = {
      segment: segment.segment,
      seq: event.seq,
      conversationId: frame.conversation_id,
      runId: frame.stream_id,
      timestamp: frame.server_timestamp,
    }
    projectFrame(rows, place, frame)
  }
  const { conversationId } = segment
  return await upkeep.project({ conversationId, segment: segment.segment, from, to, rows })
}
