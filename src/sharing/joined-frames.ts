import { isKnownKind } from '../protocol/frame-kinds.ts'
import type { AnyFrame } from '../protocol/frames.ts'

type Fields = AnyFrame & Record<string, unknown>

/**
 * The frames with each streamed text as one piece, in the place of its first: a secret that was streamed in several pieces
 * can only be found in the whole. Of ordinary streams, they reduce to the same transcript; the caller checks it.
 */
export function joinedFrames(frames: readonly AnyFrame[]): AnyFrame[] {
  const firsts = new Map<string, Fields>()
  const wholeOutputs = new Set(
    (frames as Fields[])
      .filter(({ kind, partial }) => kind === 'tool.output' && partial !== true)
      .map((frame) => callOf(frame)),
  )
  const joined: AnyFrame[] = []
  for (const frame of frames as Fields[]) {
    const field = streamedField(frame)
    // The whole output repeats the pieces before it.
    if (field === 'output' && wholeOutputs.has(callOf(frame))) continue
    const piece = field === null ? undefined : frame[field]
    if (field === null || typeof piece !== 'string') {
      joined.push(frame)
      continue
    }
    const key = partOf(frame)
    const first = firsts.get(key)
    if (first) {
      first[field] = (first[field] as string) + piece
      if (frame.kind !== 'chunk.done') continue
      const { data: _, ...end } = frame
      joined.push(end)
      continue
    }
    const copy = { ...frame }
    firsts.set(key, copy)
    joined.push(copy)
  }
  return joined
}

/** The field of a frame that continues the text of an earlier frame. */
function streamedField({ kind, partial }: Fields): string | null {
  if (!isKnownKind(kind)) return null
  if (kind === 'chunk.delta' || kind === 'chunk.done') return 'data'
  if (kind === 'tool.output') return partial === true ? 'output' : null
  return kind.endsWith('.delta') ? 'delta' : null
}

function callOf({ stream_id, tool_call_id }: Fields): string {
  return JSON.stringify([stream_id, tool_call_id])
}

function partOf(frame: Fields): string {
  const { kind, stream_id, response_id, output_index, item_id, content_index, summary_index, target } = frame
  const family = kind.startsWith('chunk.') ? 'chunk' : kind
  return JSON.stringify([
    family,
    stream_id,
    response_id,
    output_index,
    item_id,
    content_index,
    summary_index,
    target,
    frame.tool_call_id,
  ])
}
