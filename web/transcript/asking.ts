import type { RunEntry } from '../../src/replay/transcript.ts'

/** Whether a tool of the run waits for approval. */
export function isAsking(run: RunEntry): boolean {
  return (
    run.endedAt === null &&
    run.items.some(
      (item) => item.type === 'tool' && item.approval?.status === 'requested' && item.endedAt === null,
    )
  )
}
