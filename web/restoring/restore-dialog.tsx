import { useQuery } from '@tanstack/react-query'
import { keys, server } from '../server.ts'
import { text } from '../text.ts'
import { FileChangeDialog } from './file-change-dialog.tsx'

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
    <FileChangeDialog
      conversationId={conversationId}
      words={text.restore}
      isRunning={isRunning}
      note={<LeftOut conversationId={conversationId} checkpointId={checkpointId} />}
      preview={() => server.restore(conversationId, { ...body, dry_run: true })}
      run={async (key) => {
        const done = await server.restore(conversationId, body, { idempotencyKey: key })
        return { ...done, kept: done.safety_checkpoint }
      }}
      onClose={onClose}
    />
  )
}

const SHOWN = 100

/** Files that are not in the checkpoint; a restore does not change them. */
function LeftOut({ conversationId, checkpointId }: { conversationId: string; checkpointId: string }) {
  const checkpoint = useQuery({
    queryKey: [...keys.work(conversationId), 'left out', checkpointId],
    queryFn: () => server.checkpoint(conversationId, checkpointId),
  })
  const leftOut = checkpoint.data?.left_out ?? []
  if (leftOut.length === 0) return null
  return (
    <details className="left-out">
      <summary>{text.restore.leftOut(leftOut.length)}</summary>
      <ul>
        {leftOut.slice(0, SHOWN).map(({ path, reason }) => (
          <li key={path}>
            <code>{path}</code> <span className="quiet">{reason}</span>
          </li>
        ))}
        {leftOut.length > SHOWN && <li>{text.andMore(leftOut.length - SHOWN)}</li>}
      </ul>
    </details>
  )
}
