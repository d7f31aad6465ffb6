import type { QueueView } from '../../src/protocol/api/runs.ts'
import { shortened } from '../../src/protocol/title.ts'
import type { MessageEntry, Transcript } from '../../src/replay/transcript.ts'
import { takeAllBack, waitingDrafts } from '../composer/queued.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { dateOf } from '../format.ts'
import { useAskRestore } from '../restoring/ask-restore.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'
import { undeleteMessage } from './undelete.ts'

export function DeleteDialog({
  conversationId,
  message,
  transcript,
  queue,
  onClose,
}: {
  conversationId: string
  message: MessageEntry
  transcript: Transcript
  queue: QueueView | null
  onClose(): void
}) {
  const toasts = useToasts()
  const askRestore = useAskRestore()
  const later = transcript.entries.filter((entry) => entry.at >= message.at)
  const messages = later.filter((entry) => entry.type === 'message').length
  const answers = later.filter((entry) => entry.type === 'run').length

  async function remove(): Promise<void> {
    const drafts = await waitingDrafts(conversationId)
    const { checkpoint_id, undo_until, cleared } = await server.deleteMessage(
      conversationId,
      message.messageId,
    )
    takeAllBack(conversationId, cleared, drafts)
    const undo = { label: text.undo, run: () => undeleteMessage(conversationId, message.messageId, toasts) }
    const restore = {
      label: text.deletion.restoreFiles,
      stays: true,
      run: async () => askRestore(checkpoint_id ?? ''),
    }
    toasts.show({
      message: text.deletion.done(messages, dateOf(undo_until)),
      details: cleared.map(({ content }) => text.deletion.cleared(shortened(content, 80))),
      conversationId,
      about: `deletion ${conversationId}`,
      actions: checkpoint_id === null ? [undo] : [undo, restore],
    })
    refresh(conversationId)
  }

  return (
    <Dialog
      title={text.deletion.title}
      onClose={onClose}
      action={{ label: text.deletion.action, look: 'danger', run: remove }}
    >
      <blockquote className="said-short">{shortened(message.content, 200)}</blockquote>
      <ul>
        <li>{text.deletion.leaves(messages, answers)}</li>
        {queue?.active && <li>{text.deletion.stops}</li>}
        {queue && queue.items.length > 0 && <li>{text.deletion.clears(queue.items.length)}</li>}
        <li>{text.deletion.stays}</li>
        <li>{text.deletion.undoable}</li>
      </ul>
    </Dialog>
  )
}
