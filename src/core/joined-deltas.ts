import type { FrameDraft } from '../protocol/frames.ts'

/** Kinds whose deltas can be concatenated. */
const deltaKinds = new Set([
  'message.delta',
  'refusal.delta',
  'reasoning_summary.delta',
  'tool.arguments.delta',
  'tool.code.delta',
])
/** Small enough that readers see words arrive, not pages. */
const MOST_JOINED = 400

type Delta = FrameDraft & { delta: string }

/** One delta instead of two, or null unless both belong to the same part. */
export function joinedDeltas(before: FrameDraft, next: FrameDraft): FrameDraft | null {
  if (before.kind !== next.kind || !deltaKinds.has(next.kind)) return null
  const [first, second] = [before, next] as [Delta, Delta]
  if (first.delta.length + second.delta.length > MOST_JOINED || !isSamePart(first, second)) return null
  return { ...second, delta: first.delta + second.delta } as FrameDraft
}

function isSamePart(a: FrameDraft, b: FrameDraft): boolean {
  return (
    a.output_index === b.output_index &&
    a.content_index === b.content_index &&
    a.response_id === b.response_id &&
    (a as { summary_index?: number }).summary_index === (b as { summary_index?: number }).summary_index
  )
}
