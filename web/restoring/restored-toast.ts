import type { useToasts } from '../controls/toasts.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'
import type { FilesReport } from './reported-files.tsx'

type Toasts = ReturnType<typeof useToasts>

/** Shows a toast with the restored, deleted and skipped files, and an undo button. */
export function sayRestored(
  conversationId: string,
  report: FilesReport,
  safety: string | null,
  toasts: Toasts,
  how: 'done' | 'undone' = 'done',
  /** The conversation on whose page the toast appears. */
  shownIn = conversationId,
): void {
  const { restored, deleted, skipped, rescued } = report
  const counts = text.work.report(restored.length, deleted.length, skipped.length)
  const undo = {
    label: how === 'done' ? text.undo : text.redo,
    run: () => undoRestore(conversationId, safety ?? '', toasts, shownIn),
  }
  toasts.show({
    message: how === 'done' ? counts : text.work.undone(counts),
    details: [
      ...skipped.map(({ path, reason }) => text.work.skipped(path, reason)),
      ...rescued.map(({ path, file }) => text.work.rescued(path, file)),
    ],
    conversationId: shownIn,
    about: `files ${conversationId}`,
    ...(safety === null ? {} : { actions: [undo] }),
  })
}

/** Restores the safety checkpoint; the undo itself can be undone. */
async function undoRestore(
  conversationId: string,
  checkpointId: string,
  toasts: Toasts,
  shownIn: string,
): Promise<void> {
  const done = await server.restore(conversationId, { checkpoint_id: checkpointId })
  sayRestored(conversationId, done, done.safety_checkpoint, toasts, 'undone', shownIn)
  refresh(conversationId)
}
