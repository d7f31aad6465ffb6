import type { Captured } from '../core/work-sessions.ts'
import type { FrameDraft } from '../protocol/frames.ts'

/** The place of a call in its run's frames. */
interface CallPlace {
  response_id: string
  output_index: number
  item_id: string
  tool_call_id: string
}

/** An agent may announce a call after it has started: changes up to this long before the announcement count as the call's. */
const TOLERANCE_MS = 1000
const MAX_EDITS = 1000

/**
 * A checkpoint taken after a call of an agent that is a program of its own, and an edit for each file that has changed since
 * the call began. Files that changed before that were changed by a person or another program.
 */
export function capturedFrames(
  { frame, changes }: Captured,
  call: { startedAt: number; callFor(path: string): CallPlace | null },
): FrameDraft[] {
  const edits = changes.slice(0, MAX_EDITS).flatMap(({ changedAt, diff, ...edit }): FrameDraft[] => {
    if (changedAt !== null && changedAt < call.startedAt - TOLERANCE_MS) return []
    const place = call.callFor(edit.path) ?? {}
    return [{ kind: 'file.edit', ...place, ...edit, ...(diff === null ? {} : { diff }) }]
  })
  return [frame, ...edits]
}
