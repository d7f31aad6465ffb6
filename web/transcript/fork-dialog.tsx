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

export interface ForkPlace {
  /** Just before this message, or behind this event. */
  messageId?: string
  /** What that message says: it is in the fork's field, to be said in other words. */
  content?: string
  activeFiles?: readonly string[]
  attachments?: MessageEntry['attachments']
  eventNumber?: number
  /** What was said: another wording of it is sent in the fork at once. */
  said?: Pick<MessageEntry, 'content' | 'activeFiles' | 'attachments'>
}

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
  const { said } = place
  const { attachments = [] } = said ?? place
  // A second press, or one behind a lost answer, makes no second fork; another wish is another fork.
  const rewording = `edit.${place.messageId}`
  const [wish, setWish] = useState(() => ({
    title: said ? '' : text.fork.of(parentTitle).slice(0, 500),
    content: said ? unsaidOf(rewording).draft.content || said.content : '',
    files: 'keep' as (typeof ways)[number],
    key: newId('msg'),
  }))
  const { title, content, files, key } = wish
  const change = (part: Partial<typeof wish>) => setWish({ ...wish, ...part, key: newId('msg') })
  /** Kept when the dialog is closed, and through a reload. */
  function reword(next: string): void {
    setWish({ ...wish, content: next })
    changeDraft(rewording, () => ({ content: next === said?.content ? '' : next }))
  }

  async function fork(): Promise<void> {
    const attached = await readSent(conversationId, attachments)
    const name = title.trim() || titleFrom(content || parentTitle)
    // Behind a lost answer it is the same wish, whatever the wording is by then.
    setWish((before) => ({ ...before, title: name }))
    const made = await server.fork(
      conversationId,
      {
        ...(place.messageId === undefined ? {} : { message_id: place.messageId }),
        ...(place.eventNumber === undefined ? {} : { event_number: place.eventNumber }),
        title: name,
        files,
      },
      { idempotencyKey: key },
    )
    if (made.restored) sayRestored(made.id, made.restored, made.restored.safety_checkpoint, notices)
    // What was to be said is in the fork's field before it is sent from there: nothing of it is lost should that fail.
    const written = said ? content : place.content
    if (written !== undefined)
      changeDraft(made.id, () => ({ content: written, files: stillNamed(written), attached }))
    if (said) changeDraft(rewording, () => ({ content: '' }))
    go({ conversationId: made.id })
    refresh(made.id)
    if (said) void notices.attempt(() => sendDraft(made.id))
  }

  /** Files that were named before and are not any more do not go along. */
  function stillNamed(written: string): string[] {
    const { content: before = '', activeFiles = [] } = said ?? place
    return activeFiles.filter((path) => !isNamed(before, path) || isNamed(written, path))
  }

  return (
    <Dialog
      title={said ? text.fork.editTitle : text.fork.title}
      onClose={onClose}
      wide={said !== undefined}
      action={{
        label: said ? text.fork.editAction : text.fork.action,
        run: fork,
        isReady: !said || content.trim() !== '',
      }}
    >
      <p>{place.eventNumber === undefined ? text.fork.meansBefore : text.fork.meansBehind}</p>
      {attachments.length > 0 && (
        <p className="quiet">{text.fork.along(attachments.map(({ name }) => name).join(', '))}</p>
      )}
      {said && (
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
