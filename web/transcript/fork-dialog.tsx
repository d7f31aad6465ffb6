import { useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useNotices } from '../controls/notices.tsx'
import { go } from '../location.tsx'
import { refresh, server } from '../server.ts'
import { text } from '../text.ts'
import { sayRestored } from './undo.ts'

const ways = ['keep', 'restore', 'copy'] as const

export interface ForkPlace {
  /** Just before this message, or behind this event. */
  messageId?: string
  eventNumber?: number
  /** Another wording of the message: it is sent in the fork at once. */
  content?: string
}

export function ForkDialog({
  conversationId,
  place,
  onClose,
}: {
  conversationId: string
  place: ForkPlace
  onClose(): void
}) {
  const notices = useNotices()
  const isEdit = place.content !== undefined
  const [title, setTitle] = useState('')
  const [content, setContent] = useState(place.content ?? '')
  const [files, setFiles] = useState<(typeof ways)[number]>('keep')
  // A second press, or one behind a lost answer, makes no second fork.
  const [key] = useState(() => newId('msg'))

  async function fork(): Promise<void> {
    const made = await server.fork(
      conversationId,
      {
        ...(place.messageId === undefined ? {} : { message_id: place.messageId }),
        ...(place.eventNumber === undefined ? {} : { event_number: place.eventNumber }),
        ...(title.trim() === '' ? {} : { title: title.trim() }),
        files,
      },
      { idempotencyKey: `${key} ${files} ${title}` },
    )
    if (isEdit) await server.sendMessage(made.id, { content }, { idempotencyKey: `${key} message` })
    if (made.restored) sayRestored(made.id, made.restored, made.restored.safety_checkpoint, notices)
    go({ conversationId: made.id })
    refresh(made.id)
  }

  return (
    <Dialog
      title={isEdit ? text.fork.editTitle : text.fork.title}
      onClose={onClose}
      wide={isEdit}
      action={{
        label: isEdit ? text.fork.editAction : text.fork.action,
        run: fork,
        isReady: !isEdit || content.trim() !== '',
      }}
    >
      <p>{place.eventNumber === undefined ? text.fork.meansBefore : text.fork.meansBehind}</p>
      {isEdit && (
        <label className="field">
          {text.fork.message}
          <textarea rows={6} value={content} onChange={(event) => setContent(event.target.value)} />
        </label>
      )}
      <label className="field">
        {text.fork.name}
        <input value={title} maxLength={500} onChange={(event) => setTitle(event.target.value)} />
      </label>
      <fieldset className="choices">
        <legend>{text.fork.files}</legend>
        {ways.map((way) => (
          <label key={way}>
            <input type="radio" name="files" checked={files === way} onChange={() => setFiles(way)} />
            <span>
              <strong>{text.fork.ways[way].name}</strong> {text.fork.ways[way].means}
            </span>
          </label>
        ))}
      </fieldset>
    </Dialog>
  )
}
