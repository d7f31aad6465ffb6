import type { ToolItem, Transcript } from '../../src/replay/transcript.ts'

/** True if a tool that may have changed files without recording it has run since the last checkpoint. */
export function hasRunCommands(transcript: Transcript): boolean {
  const run = transcript.entries.findLast((entry) => entry.type === 'run')
  if (run?.type !== 'run' || run.endedAt !== null) return false
  return run.items.some(
    (item) =>
      item.type === 'tool' &&
      mayHaveChangedFiles(item) &&
      (item.approval === null || item.approval.status === 'approved'),
  )
}

function mayHaveChangedFiles({ details, output, endedAt }: ToolItem): boolean {
  if (details?.file_effect !== undefined) return details.file_effect === 'unrecorded'
  // Not started yet, or a ledger of an earlier version: those count once there is output.
  return endedAt !== null || (output ?? null) !== null
}
