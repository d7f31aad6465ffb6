import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react'
import type { QueueView } from '../../src/protocol/api/runs.ts'
import { Button, IconButton } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { useNotices } from '../controls/notices.tsx'
import { bytesOf, shortened } from '../format.ts'
import { useShortcuts } from '../keyboard.ts'
import { keys, queries, server } from '../server.ts'
import { text } from '../text.ts'
import { type Attached, readAttachments } from './attachments.ts'
import { type Draft, emptyDraft, keepDraft, keptDraft } from './drafts.ts'
import { FileChoices, useFileChoices } from './file-choices.tsx'
import { mentionAt, withMention } from './mention.ts'

/** Where a message is written. What was not sent is kept, through reloads too. */
export function Composer({
  conversationId,
  queue,
  isUntitled,
}: {
  conversationId: string
  queue: QueueView | null
  isUntitled: boolean
}) {
  const { attempt, show } = useNotices()
  const [draft, setDraft] = useState(() => keptDraft(conversationId))
  const [attached, setAttached] = useState<readonly Attached[]>([])
  const [caret, setCaret] = useState(0)
  const [isSending, setSending] = useState(false)
  const [isOver, setOver] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const listId = useId()
  const mention = mentionAt(draft.content, caret)
  const choices = useFileChoices(conversationId, mention?.typed ?? null)

  useEffect(() => keepDraft(conversationId, draft), [conversationId, draft])
  useShortcuts({
    c: () => field.current?.focus(),
    s: () => void stop(),
  })

  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }))

  async function send(): Promise<void> {
    const { content, files, key } = draft
    if (content.trim() === '' || isSending) return
    setSending(true)
    await attempt(async () => {
      if (isUntitled) await server.changeConversation(conversationId, { title: shortened(content, 60) })
      // The same draft sent twice, behind a lost answer, is accepted once.
      await server.sendMessage(
        conversationId,
        {
          content,
          ...(files.length > 0 ? { active_files: [...files] } : {}),
          ...(attached.length > 0
            ? { attachments: attached.map(({ name, content: body }) => ({ name, content: body })) }
            : {}),
        },
        { idempotencyKey: key },
      )
      setDraft(emptyDraft())
      setAttached([])
      void queries.invalidateQueries({ queryKey: keys.conversations })
    })
    setSending(false)
    field.current?.focus()
  }

  async function stop(): Promise<void> {
    if (queue?.active) await attempt(() => server.stop(conversationId))
  }

  async function attach(files: Iterable<File>): Promise<void> {
    const { read, refused } = await readAttachments([...files])
    setAttached((before) => [...before, ...read])
    for (const message of refused) show({ message, isProblem: true })
  }

  function choose(path: string): void {
    if (!mention) return
    const { content, caret: next } = withMention(draft.content, mention, path)
    change({ content, files: draft.files.includes(path) ? draft.files : [...draft.files, path] })
    setCaret(next)
    requestAnimationFrame(() => {
      field.current?.focus()
      field.current?.setSelectionRange(next, next)
    })
  }

  function press(event: KeyboardEvent<HTMLTextAreaElement>): void {
    if (event.nativeEvent.isComposing) return
    if (choices.handle(event, choose)) return
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault()
      void send()
    }
    if (event.key === 'Escape') field.current?.blur()
  }

  function paste(event: ClipboardEvent<HTMLTextAreaElement>): void {
    if (event.clipboardData.files.length === 0) return
    event.preventDefault()
    void attach(event.clipboardData.files)
  }

  function drop(event: DragEvent<HTMLFormElement>): void {
    event.preventDefault()
    setOver(false)
    void attach(event.dataTransfer.files)
  }

  return (
    <form
      className={isOver ? 'composer over' : 'composer'}
      aria-label={text.composer.name}
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <Waiting queue={queue} conversationId={conversationId} />
      {(draft.files.length > 0 || attached.length > 0) && (
        <ul className="chips" aria-label={text.composer.along}>
          {draft.files.map((path) => (
            <li key={path} className="chip">
              <Icon name="file" />
              {path}
              <IconButton
                icon="close"
                name={text.composer.without(path)}
                onClick={() => change({ files: draft.files.filter((one) => one !== path) })}
              />
            </li>
          ))}
          {attached.map(({ id, name, content }) => (
            <li key={id} className="chip">
              <Icon name="clip" />
              {name} <span className="quiet">{bytesOf(content.length)}</span>
              <IconButton
                icon="close"
                name={text.composer.without(name)}
                onClick={() => setAttached(attached.filter((one) => one.id !== id))}
              />
            </li>
          ))}
        </ul>
      )}
      {mention && <FileChoices id={listId} choices={choices} onChoose={choose} />}
      <div className="composer-field">
        <textarea
          ref={field}
          rows={1}
          value={draft.content}
          placeholder={text.composer.placeholder}
          aria-label={text.composer.message}
          aria-autocomplete="list"
          aria-controls={mention && choices.paths.length > 0 ? listId : undefined}
          aria-activedescendant={mention ? choices.activeId(listId) : undefined}
          onChange={(event) => {
            change({ content: event.target.value })
            setCaret(event.target.selectionStart)
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={press}
          onPaste={paste}
        />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={text.composer.attach}
          onChange={(event) => {
            void attach(event.target.files ?? [])
            event.target.value = ''
          }}
        />
        <IconButton icon="clip" name={text.composer.attach} onClick={() => picker.current?.click()} />
        {queue?.active && (
          <Button look="danger" icon="stop" onClick={() => void stop()}>
            {text.composer.stop}
          </Button>
        )}
        <Button type="submit" look="main" icon="send" disabled={isSending || draft.content.trim() === ''}>
          {queue?.active ? text.composer.queue : text.composer.send}
        </Button>
      </div>
    </form>
  )
}

/** Messages that wait their turn; each can be taken back. */
function Waiting({ queue, conversationId }: { queue: QueueView | null; conversationId: string }) {
  const { attempt } = useNotices()
  if (!queue || queue.items.length === 0) return null
  return (
    <ol className="chips waiting" aria-label={text.composer.waiting}>
      {queue.items.map(({ run_id, content, position }) => (
        <li key={run_id} className="chip">
          <span className="position">{position}</span>
          {shortened(content, 60)}
          <IconButton
            icon="close"
            name={text.composer.remove(shortened(content, 30))}
            onClick={() => void attempt(() => server.removeQueued(conversationId, run_id))}
          />
        </li>
      ))}
    </ol>
  )
}
