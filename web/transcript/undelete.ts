import { shortened } from '../../src/protocol/title.ts'
import { takeAllBack, waitingDrafts } from '../composer/queued.ts'
import type { useToasts } from '../controls/toasts.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'

type Toasts = ReturnType<typeof useToasts>

/** Undoes a deletion. Newer messages leave the line, so it asks for confirmation first if there are any. */
export async function undeleteMessage(
  conversationId: string,
  messageId: string,
  toasts: Toasts,
): Promise<void> {
  const since = await saidSince(conversationId, messageId)
  if (since === 0) return await undelete(conversationId, messageId, toasts)
  toasts.show({
    message: text.deletion.saidSince(since),
    conversationId,
    about: `deletion ${conversationId}`,
    actions: [{ label: text.deletion.allTheSame, run: () => undelete(conversationId, messageId, toasts) }],
  })
}

async function undelete(conversationId: string, messageId: string, toasts: Toasts): Promise<void> {
  const drafts = await waitingDrafts(conversationId)
  const { left_message_id, cleared } = await server.undelete(conversationId, { message_id: messageId })
  takeAllBack(conversationId, cleared, drafts)
  toasts.dismiss(`deletion ${conversationId}`)
  if (left_message_id !== null || cleared.length > 0) {
    const back = left_message_id ?? ''
    const asBefore = { label: text.deletion.asBefore, run: () => undelete(conversationId, back, toasts) }
    toasts.show({
      message: text.deletion.broughtBack,
      details: cleared.map(({ content }) => text.deletion.cleared(shortened(content, 80))),
      conversationId,
      about: `deletion ${conversationId}`,
      ...(left_message_id === null ? {} : { actions: [asBefore] }),
    })
  }
  refresh(conversationId)
}

/** Counts the messages sent or queued since this one was deleted. */
async function saidSince(conversationId: string, messageId: string): Promise<number> {
  const [{ head_event_number }, queue] = await Promise.all([
    server.conversation(conversationId),
    server.queue(conversationId),
  ])
  const { entries } = await server.transcriptAt(conversationId, head_event_number)
  const cut = entries.findLastIndex(
    ({ type, ...entry }) =>
      type === 'mark' && 'mark' in entry && entry.mark.kind === 'cut' && entry.mark.messageId === messageId,
  )
  const later = entries.slice(cut + 1).filter((entry) => entry.type === 'message').length + queue.items.length
  // The deletion mark is before the loaded part, or no longer on the line, so at least one message was sent since.
  return cut < 0 ? Math.max(1, later) : later
}
