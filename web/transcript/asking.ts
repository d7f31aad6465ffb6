import type { RunEntry } from '../../src/replay/transcript.ts'

/** True if a tool call of the run is waiting for approval. */
export function isAsking(run: RunEntry): boolean {
  return (
    run.endedAt === null &&
    run.items.some(
      (item) => item.type === 'tool' && item.approval?.status === 'requested' && item.endedAt === null,
    )
  )
}
