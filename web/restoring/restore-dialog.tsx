import { server } from '../server.ts'
import { text } from '../text.ts'
import { PutBackDialog } from './put-back-dialog.tsx'

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
  const body = { checkpoint_id: checkpointId }
  return (
    <PutBackDialog
      conversationId={conversationId}
      words={text.restore}
      isRunning={isRunning}
      preview={() => server.restore(conversationId, { ...body, dry_run: true })}
      run={async (key) => {
        const done = await server.restore(conversationId, body, { idempotencyKey: key })
        return { ...done, kept: done.safety_checkpoint }
      }}
      onClose={onClose}
    />
  )
}
