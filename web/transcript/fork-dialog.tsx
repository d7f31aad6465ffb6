import { useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import type { MessageEntry } from '../../src/replay/transcript.ts'
import { readSent } from '../composer/attachments.ts'
import { changeDraft, unsaidOf } from '../composer/drafts.ts'
import { isNamed } from '../composer/mention.ts'
import { sendDraft } from '../composer/outbox.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useNotices } from '../controls/notices.tsx'
import { titleFrom } from '../format.ts'
import { go } from '../location.tsx'
import { sayRestored } from '../restoring/say-restored.ts'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'

const ways = ['keep', 'restore', 'copy'] as const

/** After an event; or just before a message, which then is in the fork's composer, or is reworded here and sent at once. */
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
  /** Of what is forked. */
  title: string
  onClose(): void
}) {
  const notices = useNotices()
  const message = place.type === 'after' ? null : place.message
  const { attachments = [] } = message ?? {}
  const isReworded = place.type === 'reworded'
  const rewording = `edit.${message?.messageId}`
  // A second press, or a retry after a lost answer, makes no second fork; a different request does.
  const [wish, setWish] = useState(() => ({
    title: isReworded ? '' : text.fork.of(parentTitle).slice(0, 500),
    content: (isReworded && unsaidOf(rewording).draft.content) || (message?.content ?? ''),
    files: 'keep' as (typeof ways)[number],
    key: newId('msg'),
  }))
  const { title, content, files, key } = wish
  const change = (part: Partial<typeof wish>) => setWish({ ...wish, ...part, key: newId('msg') })
  /** Kept when the dialog is closed, and through a reload. */
  function reword(next: string): void {
    setWish({ ...wish, content: next })
    changeDraft(rewording, () => ({ content: next === message?.content ? '' : next }))
  }

  async function fork(): Promise<void> {
    const attached = await readSent(conversationId, attachments)
    const name = title.trim() || titleFrom(content || parentTitle)
    // After a lost answer it is the same request, whatever the wording is by then.
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
    if (made.restored) sayRestored(made.id, made.restored, made.restored.safety_checkpoint, notices)
    // What was to be said is in the fork's field before it is sent from there: nothing of it is lost should that fail.
    if (message) changeDraft(made.id, () => ({ content, files: stillNamed(message), attached }))
    if (isReworded) changeDraft(rewording, () => ({ content: '' }))
    go({ conversationId: made.id })
    refresh(made.id)
    if (isReworded) void notices.attempt(() => sendDraft(made.id))
  }

  /** Files that were named before and are not any more do not go along. */
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
