import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { FilesReport } from '../controls/files-report.tsx'
import { useNotices } from '../controls/notices.tsx'
import { explain, refresh, server } from '../server.ts'
import { text } from '../text.ts'
import { sayRestored } from './undo.ts'

/** Shows what putting the files back would do before it is done. */
export function RestoreDialog({
  conversationId,
  checkpointId,
  isRunning,
  onClose,
}: {
  conversationId: string
  checkpointId: string
  isRunning: boolean
  onClose(): void
}) {
  const notices = useNotices()
  // Sent again behind a lost answer, it is done once.
  const [key] = useState(() => newId('msg'))
  const preview = useQuery({
    queryKey: ['restore preview', conversationId, checkpointId],
    queryFn: () => server.restore(conversationId, { checkpoint_id: checkpointId, dry_run: true }),
    staleTime: 0,
    gcTime: 0,
  })
  async function restore(): Promise<void> {
    const body = { checkpoint_id: checkpointId }
    const done = await server.restore(conversationId, body, { idempotencyKey: key })
    sayRestored(conversationId, done, done.safety_checkpoint, notices)
    refresh(conversationId)
  }
  return (
    <Dialog
      title={text.restore.title}
      onClose={onClose}
      action={{
        label: text.restore.action,
        run: restore,
        isReady: !isRunning && preview.isSuccess && hasSomethingToDo(preview.data),
      }}
    >
      <p>{text.restore.means}</p>
      {isRunning && <p className="failure">{text.changes.busy}</p>}
      {preview.isPending && <p>{text.looking}</p>}
      {preview.isError && <p className="failure">{explain(preview.error)}</p>}
      {preview.data && <FilesReport report={preview.data} />}
    </Dialog>
  )
}

function hasSomethingToDo({
  restored,
  deleted,
}: {
  restored: readonly string[]
  deleted: readonly string[]
}): boolean {
  return restored.length + deleted.length > 0
}
