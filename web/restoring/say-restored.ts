import type { useNotices } from '../controls/notices.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'
import type { FilesReport } from './reported-files.tsx'

type Notices = ReturnType<typeof useNotices>

/** What was done with files, what was not, and how to take it back. */
export function sayRestored(
  conversationId: string,
  report: FilesReport,
  safety: string | null,
  notices: Notices,
  how: 'done' | 'undone' = 'done',
): void {
  const { restored, deleted, skipped, rescued } = report
  const counts = text.work.report(restored.length, deleted.length, skipped.length)
  const undo = {
    label: how === 'done' ? text.undo : text.redo,
    run: () => undoRestore(conversationId, safety ?? '', notices),
  }
  notices.show({
    message: how === 'done' ? counts : text.work.undone(counts),
    details: [
      ...skipped.map(({ path, reason }) => text.work.skipped(path, reason)),
      ...rescued.map(({ path, file }) => text.work.rescued(path, file)),
    ],
    conversationId,
    about: `files ${conversationId}`,
    ...(safety === null ? {} : { actions: [undo] }),
  })
}

/** Puts the files back to what they were before something was done to them just now; that can be undone in its turn. */
async function undoRestore(conversationId: string, checkpointId: string, notices: Notices): Promise<void> {
  const done = await server.restore(conversationId, { checkpoint_id: checkpointId })
  sayRestored(conversationId, done, done.safety_checkpoint, notices, 'undone')
  refresh(conversationId)
}
