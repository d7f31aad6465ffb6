import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { FileChangeDialog } from '../restoring/file-change-dialog.tsx'
import { explain, keys, refresh, server } from '../server.ts'
import { text } from '../text.ts'
import { Counts } from '../transcript/diff-view.tsx'
import { ChangeWord } from './change-word.tsx'

interface WorkDialogProps {
  conversationId: string
  /** Disables the action while a run is active. */
  isRunning: boolean
  onClose(): void
}

export function ApproveDialog({ conversationId, isRunning, onClose }: WorkDialogProps) {
  const { show } = useToasts()
  // The idempotency key makes a retry after a lost response safe.
  const [wish, setWish] = useState(() => ({ message: '', key: newId('msg') }))
  const { message, key } = wish
  // Refetch often, because approving covers the current files, not those shown when the dialog opened.
  const session = useQuery({
    queryKey: [...keys.work(conversationId), 'to approve'],
    queryFn: () => server.session(conversationId),
    staleTime: 0,
    gcTime: 0,
    refetchInterval: 2000,
  })
  const files = session.data?.changed_files ?? []
  async function approve(): Promise<void> {
    const trimmed = message.trim()
    const body = trimmed === '' ? {} : { message: trimmed }
    const done = await server.approve(conversationId, body, { idempotencyKey: key })
    show({
      message: text.approve.done(done.commits_approved, done.new_session),
      conversationId,
    })
    refresh(conversationId)
  }
  return (
    <Dialog
      title={text.approve.title}
      onClose={onClose}
      action={{ label: text.approve.action, run: approve, isReady: !isRunning && session.isSuccess }}
    >
      <p>{text.approve.means}</p>
      {isRunning && <p className="failure">{text.changes.busy}</p>}
      {session.isPending && <p>{text.looking}</p>}
      {session.isError && <p className="failure">{explain(session.error)}</p>}
      {session.isSuccess && files.length === 0 ? (
        <p>{text.changes.none}</p>
      ) : (
        <ul className="files-report">
          {files.map((file) => (
            <li key={file.path}>
              <ChangeWord file={file} /> <code>{file.path}</code> <Counts {...file} />
            </li>
          ))}
        </ul>
      )}
      <label className="field">
        {text.approve.message}
        <input
          value={message}
          maxLength={2000}
          onChange={(event) => setWish({ message: event.target.value, key: newId('msg') })}
        />
      </label>
    </Dialog>
  )
}

/** Merges the fork's working copy into the files of its parent. */
export function AdoptDialog({
  conversationId,
  parentId,
  isRunning,
  onClose,
}: WorkDialogProps & { parentId: string }) {
  const from = conversationId
  return (
    <FileChangeDialog
      conversationId={parentId}
      shownIn={conversationId}
      words={text.adopt}
      isRunning={isRunning}
      option={text.adopt.prefer}
      preview={(prefer_other) => server.adopt(parentId, { from, prefer_other, dry_run: true })}
      run={async (key, prefer_other) => {
        const done = await server.adopt(parentId, { from, prefer_other }, { idempotencyKey: key })
        return { ...done, kept: done.safety_checkpoint }
      }}
      onClose={onClose}
    />
  )
}

export function ResetDialog({ conversationId, isRunning, onClose }: WorkDialogProps) {
  return (
    <FileChangeDialog
      conversationId={conversationId}
      words={text.reset}
      look="danger"
      isRunning={isRunning}
      option={text.reset.others}
      preview={(include_others) => server.reset(conversationId, { dry_run: true, include_others })}
      run={async (key, include_others) => {
        const done = await server.reset(conversationId, { include_others }, { idempotencyKey: key })
        return { ...done, kept: done.pre_reset_checkpoint }
      }}
      onClose={onClose}
    />
  )
}
