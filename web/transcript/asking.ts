import type { RunEntry } from '../../src/replay/transcript.ts'

/** Whether a tool of the run asks whether it may run, and nobody has answered. */
export function isAsking(run: RunEntry): boolean {
  return (
    run.endedAt === null &&
    run.items.some(
      (item) => item.type === 'tool' && item.approval?.status === 'requested' && item.endedAt === null,
    )
  )
}
