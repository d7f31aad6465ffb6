import { useState } from 'react'
import type { SessionView } from '../../src/protocol/api/work.ts'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useNotices } from '../controls/notices.tsx'
import { PutBackDialog } from '../controls/put-back-dialog.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'
import { Counts } from '../transcript/diff-view.tsx'

export function ApproveDialog({
  conversationId,
  files,
  onClose,
}: {
  conversationId: string
  files: SessionView['changed_files']
  onClose(): void
}) {
  const { show } = useNotices()
  // Sent again behind a lost answer, it is done once.
  const [wish, setWish] = useState(() => ({ message: '', key: newId('msg') }))
  const { message, key } = wish
  async function approve(): Promise<void> {
    const trimmed = message.trim()
    const body = trimmed === '' ? {} : { message: trimmed }
    const done = await server.approve(conversationId, body, { idempotencyKey: key })
    show({
      message: text.approve.done(done.commits_approved, done.new_session),
      details: [text.approve.undo],
    })
    refresh(conversationId)
  }
  return (
    <Dialog
      title={text.approve.title}
      onClose={onClose}
      action={{ label: text.approve.action, run: approve }}
    >
      <p>{text.approve.means}</p>
      {files.length === 0 ? (
        <p>{text.changes.none}</p>
      ) : (
        <ul className="files-report">
          {files.map((file) => (
            <li key={file.path}>
              <span className={`change ${file.status}`}>{text.changes.words[file.status]}</span>{' '}
              <code>{file.path}</code> <Counts {...file} />
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

export function ResetDialog({ conversationId, onClose }: { conversationId: string; onClose(): void }) {
  return (
    <PutBackDialog
      conversationId={conversationId}
      words={text.reset}
      look="danger"
      isRunning={false}
      preview={() => server.reset(conversationId, { dry_run: true })}
      run={async (key) => {
        const done = await server.reset(conversationId, {}, { idempotencyKey: key })
        return { ...done, kept: done.pre_reset_checkpoint }
      }}
      onClose={onClose}
    />
  )
}
