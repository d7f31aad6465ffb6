import type { ToolItem, Transcript } from '../../src/replay/transcript.ts'

/** True while a call runs that may change files. Its effect is known at the checkpoint after it. */
export function isCommandRunning(transcript: Transcript): boolean {
  const run = transcript.entries.findLast((entry) => entry.type === 'run')
  if (run?.type !== 'run' || run.endedAt !== null) return false
  return run.items.some((item) => item.type === 'tool' && isRunning(item))
}

function isRunning({ details, approval, endedAt }: ToolItem): boolean {
  const mayRun = approval === null || approval.status === 'approved'
  return endedAt === null && mayRun && details?.file_effect === 'unrecorded'
}
