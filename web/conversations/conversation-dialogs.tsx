import { useState } from 'react'
import type { Conversation } from '../../src/protocol/api/conversations.ts'
import { shortened } from '../../src/protocol/title.ts'
import { takeAllBack, waitingDrafts } from '../composer/queued.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { dateOf } from '../format.ts'
import { go, parseAddress } from '../location.tsx'
import { keys, queries, refresh, server } from '../server.ts'
import { text } from '../text.ts'

interface DialogProps {
  conversation: Conversation
  onClose(): void
}

export function RenameDialog({ conversation: { id, title }, onClose }: DialogProps) {
  const [name, setName] = useState(title ?? '')
  async function rename(): Promise<void> {
    await server.changeConversation(id, { title: name.trim() })
    refresh(id)
  }
  return (
    <Dialog
      title={text.conversations.renameTitle}
      onClose={onClose}
      action={{ label: text.conversations.renameAction, run: rename, isReady: name.trim() !== '' }}
    >
      <label className="field">
        {text.conversations.title}
        <input value={name} maxLength={500} onChange={(event) => setName(event.target.value)} autoFocus />
      </label>
    </Dialog>
  )
}

export function DeleteConversationDialog({ conversation: { id, title, queued }, onClose }: DialogProps) {
  const { show } = useToasts()
  const name = title ?? text.conversations.untitled
  async function remove(): Promise<void> {
    const drafts = await waitingDrafts(id)
    const { undo_until, cleared } = await server.deleteConversation(id)
    // The composer holds them if the deletion is undone.
    takeAllBack(id, cleared, drafts)
    if (parseAddress(location.href).conversationId === id) go({}, 'replace')
    show({
      message: text.conversations.deleted(name, dateOf(undo_until)),
      details: cleared.map(({ content }) => text.deletion.cleared(shortened(content, 80))),
      about: `deleted ${id}`,
      actions: [{ label: text.undo, run: undo }],
    })
    void queries.invalidateQueries({ queryKey: keys.conversations })
  }
  async function undo(): Promise<void> {
    await server.undelete(id)
    go({ conversationId: id })
    refresh(id)
  }
  return (
    <Dialog
      title={text.conversations.deleteTitle(name)}
      onClose={onClose}
      action={{ label: text.conversations.deleteAction, look: 'danger', run: remove }}
    >
      <p>{text.conversations.deleteMeans}</p>
      {queued > 0 && <p>{text.deletion.clears(queued)}</p>}
    </Dialog>
  )
}
