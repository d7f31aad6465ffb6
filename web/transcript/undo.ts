import type { useNotices } from '../controls/notices.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'

type Notices = ReturnType<typeof useNotices>

export interface FilesReport {
  restored: readonly string[]
  deleted: readonly string[]
  skipped: readonly { path: string; reason: string }[]
}

/** Puts the files back to what they were before something was done to them; that can be undone in its turn. */
export async function undoRestore(
  conversationId: string,
  checkpointId: string,
  notices: Notices,
): Promise<void> {
  const done = await server.restore(conversationId, { checkpoint_id: checkpointId })
  sayRestored(conversationId, done, done.safety_checkpoint, notices)
  refresh(conversationId)
}

/** What was done with files, what was not, and how to take it back. */
export function sayRestored(
  conversationId: string,
  report: FilesReport,
  safety: string | null,
  notices: Notices,
): void {
  notices.show({
    message: text.work.report(report.restored.length, report.deleted.length, report.skipped.length),
    details: report.skipped.map(({ path, reason }) => text.work.skipped(path, reason)),
    ...(safety === null
      ? {}
      : { undo: { label: text.undo, run: () => undoRestore(conversationId, safety, notices) } }),
  })
}
