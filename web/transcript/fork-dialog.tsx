import { useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { isNamed } from '../../src/protocol/mention.ts'
import { titleFrom } from '../../src/protocol/title.ts'
import type { MessageEntry } from '../../src/replay/transcript.ts'
import { readSent } from '../composer/attachments.ts'
import { changeDraft, unsaidOf } from '../composer/drafts.ts'
import { sendDraft } from '../composer/outbox.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { go } from '../location.tsx'
import { sayRestored } from '../restoring/restored-toast.ts'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'

const ways = ['keep', 'restore', 'copy'] as const

/** After an event; or just before a message, which moves to the fork's composer or is reworded here and sent. */
export type ForkPlace =
  | { type: 'after'; eventNumber: number }
  | { type: 'before' | 'reworded'; message: MessageEntry }

export function ForkDialog({
  conversationId,
  place,
  title: parentTitle,
  onClose,
}: {
  conversationId: string
  place: ForkPlace
  /** The parent's title. */
  title: string
  onClose(): void
}) {
  const toasts = useToasts()
  const message = place.type === 'after' ? null : place.message
  const { attachments = [] } = message ?? {}
  const isReworded = place.type === 'reworded'
  const rewording = `edit.${message?.messageId}`
  // The key prevents a second fork after a double press or a lost response; a changed request gets a new key.
  const [wish, setWish] = useState(() => ({
    title: isReworded ? '' : text.fork.of(parentTitle).slice(0, 500),
    content: (isReworded && unsaidOf(rewording).draft.content) || (message?.content ?? ''),
    files: 'keep' as (typeof ways)[number],
    key: newId('msg'),
  }))
  const { title, content, files, key } = wish
  const change = (part: Partial<typeof wish>) => setWish({ ...wish, ...part, key: newId('msg') })
  /** Stores the rewording, so that it survives closing the dialog and a reload. */
  function reword(next: string): void {
    setWish({ ...wish, content: next })
    changeDraft(rewording, () => ({ content: next === message?.content ? '' : next }))
  }

  async function fork(): Promise<void> {
    const attached = await readSent(conversationId, attachments)
    const name = title.trim() || titleFrom(content || parentTitle)
    // Keep the title, so that a retry after a lost response is the same request even if the message was edited.
    setWish((before) => ({ ...before, title: name }))
    const made = await server.fork(
      conversationId,
      {
        ...(place.type === 'after'
          ? { event_number: place.eventNumber }
          : { message_id: place.message.messageId }),
        title: name,
        files,
      },
      { idempotencyKey: key },
    )
    if (made.restored) sayRestored(made.id, made.restored, made.restored.safety_checkpoint, toasts)
    // Put the message into the fork's composer before sending it, so that a failed send loses nothing.
    if (message) changeDraft(made.id, () => ({ content, files: stillNamed(message), attached }))
    if (isReworded) changeDraft(rewording, () => ({ content: '' }))
    go({ conversationId: made.id })
    refresh(made.id)
    if (isReworded) void toasts.attempt(() => sendDraft(made.id))
  }

  /** Drops files whose @mention was deleted. */
  function stillNamed({ content: before, activeFiles }: MessageEntry): string[] {
    return activeFiles.filter((path) => !isNamed(before, path) || isNamed(content, path))
  }

  return (
    <Dialog
      title={isReworded ? text.fork.editTitle : text.fork.title}
      onClose={onClose}
      wide={isReworded}
      action={{
        label: isReworded ? text.fork.editAction : text.fork.action,
        run: fork,
        isReady: !isReworded || content.trim() !== '',
      }}
    >
      <p>{place.type === 'after' ? text.fork.meansAfter : text.fork.meansBefore}</p>
      {attachments.length > 0 && (
        <p className="quiet">{text.fork.along(attachments.map(({ name }) => name).join(', '))}</p>
      )}
      {isReworded && (
        <label className="field">
          {text.fork.message}
          <textarea rows={6} value={content} onChange={(event) => reword(event.target.value)} />
        </label>
      )}
      <label className="field">
        {text.fork.name}
        <input value={title} maxLength={500} onChange={(event) => change({ title: event.target.value })} />
      </label>
      <fieldset className="choices">
        <legend>{text.fork.files}</legend>
        {ways.map((way) => (
          <label key={way}>
            <input
              type="radio"
              name="files"
              checked={files === way}
              onChange={() => change({ files: way })}
            />
            <span>
              <strong>{text.fork.ways[way].name}</strong> {text.fork.ways[way].means}
            </span>
          </label>
        ))}
      </fieldset>
    </Dialog>
  )
}
