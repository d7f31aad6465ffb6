import type { Transcript } from '../../src/replay/transcript.ts'

/** Tools of whose effect on files every bit is on record, or that have none. */
const known = new Set([
  'read_file',
  'write_to_file',
  'replace_in_file',
  'delete_file',
  'list_files',
  'search_files',
  'get_tool_result',
  'set_title',
])

/** Whether something has run since the last checkpoint that may have changed files without saying so. */
export function hasRunCommands(transcript: Transcript): boolean {
  const run = transcript.entries.findLast((entry) => entry.type === 'run')
  if (run?.type !== 'run' || run.endedAt !== null) return false
  return run.items.some(
    (item) =>
      item.type === 'tool' &&
      !known.has(item.name ?? '') &&
      item.phase !== 'arguments' &&
      (item.approval === null || item.approval.status === 'approved'),
  )
}
