import {
  type ClipboardEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react'
import type { QueueView } from '../../src/protocol/api/runs.ts'
import { isNamed, mentionAt, withMention, withoutMention } from '../../src/protocol/mention.ts'
import { shortened } from '../../src/protocol/title.ts'
import { Button, IconButton } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { bytesOf } from '../format.ts'
import { useShortcuts } from '../keyboard.ts'
import { useMay } from '../scopes.ts'
import { explain, keys, queries, server } from '../server.ts'
import { text } from '../text.ts'
import { type Attached, MAX_ATTACHED, readAttachments } from './attachments.ts'
import { ConversationOptions } from './conversation-options.tsx'
import type { Draft } from './draft.ts'
import { changeDraft, takeBack, useUnsaid } from './drafts.ts'
import { FileChoices, useFileChoices } from './file-choices.tsx'
import { focusComposer } from './focus.ts'
import { sendDraft } from './outbox.ts'
import { draftOf } from './queued.ts'

/** The message composer. Unsent text survives reloads. */
export function Composer({
  conversationId,
  queue,
  onSend = sendDraft,
  options,
}: {
  conversationId: string
  queue: QueueView | null
  onSend?(conversationId: string): Promise<void>
  /** Instead of the options of the conversation. */
  options?: ReactNode
}) {
  const { attempt, show } = useToasts()
  const { draft, unsent, lost, isSending, isKept } = useUnsaid(conversationId)
  const { attached } = draft
  const mayWrite = useMay('conversations:write')
  const [caret, setCaret] = useState(0)
  const [isOver, setOver] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const listId = useId()
  const mention = mentionAt(draft.content, caret)
  const choices = useFileChoices(conversationId, mention?.typed ?? null)

  useShortcuts({
    c: () => field.current?.focus(),
    '.': () => void stop(),
  })

  const change = (part: Partial<Pick<Draft, 'content' | 'files' | 'attached'>>) =>
    changeDraft(conversationId, () => part)

  async function send(): Promise<void> {
    field.current?.focus()
    await attempt(async () => {
      await reading.current
      await onSend(conversationId)
    })
    void queries.invalidateQueries({ queryKey: keys.conversations })
  }

  async function stop(): Promise<void> {
    focusComposer()
    if (queue?.active) await attempt(() => server.stop(conversationId))
  }

  /** Sending waits for attachments that are still being read. */
  const reading = useRef<Promise<unknown>>(Promise.resolve())
  function attach(files: Iterable<File>): void {
    const given = [...files]
    reading.current = reading.current
      .then(() => readAttachments(given))
      .then(({ read, refused }) => {
        const reasons = [...refused]
        changeDraft(conversationId, ({ attached: before }) => {
          const isNew = (one: Attached) =>
            !before.some((other) => other.name === one.name && other.content === one.content)
          const all = [...before, ...read.filter(isNew)]
          if (all.length > MAX_ATTACHED) reasons.push(text.composer.tooMany(MAX_ATTACHED))
          return { attached: all.slice(0, MAX_ATTACHED) }
        })
        for (const message of reasons) show({ message, conversationId, isProblem: true })
      })
      // A failed read must not block sending.
      .catch((error: unknown) => show({ message: explain(error), conversationId, isProblem: true }))
    focusComposer()
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
      if (draft.content.trim() !== '' || unsent.length > 0) void send()
    }
    if (event.key === 'Escape') field.current?.blur()
  }

  function paste(event: ClipboardEvent<HTMLTextAreaElement>): void {
    // Spreadsheet cells and formatted text include an image of themselves; paste the text instead.
    if (event.clipboardData.files.length === 0 || event.clipboardData.types.includes('text/plain')) return
    event.preventDefault()
    attach(event.clipboardData.files)
  }

  // Accept files dropped anywhere on the page; otherwise the browser would navigate to the file.
  const latest = useRef(attach)
  latest.current = attach
  useEffect(() => {
    function over(event: DragEvent): void {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      setOver(event.type === 'dragover')
      // A file dropped on an open dialog is not meant for the composer.
      if (event.type === 'drop' && !document.querySelector('dialog[open]'))
        latest.current(event.dataTransfer.files)
    }
    const kinds = ['dragover', 'dragleave', 'drop'] as const
    for (const kind of kinds) addEventListener(kind, over)
    return () => {
      for (const kind of kinds) removeEventListener(kind, over)
    }
  }, [])

  if (!mayWrite) return <p className="composer quiet">{text.composer.mayNotWrite}</p>
  return (
    <form
      className={isOver ? 'composer over' : 'composer'}
      aria-label={text.composer.name}
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <Waiting queue={queue} conversationId={conversationId} />
      {!isSending && <Unsent drafts={unsent} conversationId={conversationId} onAgain={() => void send()} />}
      {(draft.files.length > 0 || attached.length > 0) && (
        <ul className="chips" aria-label={text.composer.along}>
          {draft.files.map((path) => (
            <li key={path} className="chip">
              <Icon name="file" />
              {path}
              <IconButton
                icon="close"
                name={text.composer.without(path)}
                onClick={() => {
                  focusComposer()
                  change({
                    files: draft.files.filter((one) => one !== path),
                    content: withoutMention(draft.content, path),
                  })
                }}
              />
            </li>
          ))}
          {attached.map((one) => (
            <li key={one.id} className="chip">
              <Icon name="clip" />
              {one.name} <span className="quiet">{bytesOf(one.bytes)}</span>
              <IconButton
                icon="close"
                name={text.composer.without(one.name)}
                onClick={() => {
                  focusComposer()
                  change({ attached: attached.filter((other) => other !== one) })
                }}
              />
            </li>
          ))}
        </ul>
      )}
      {!isKept && <p className="quiet">{text.composer.notKept}</p>}
      {lost.length > 0 && <p className="quiet">{text.composer.lost(lost.join(', '))}</p>}
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
            const content = event.target.value
            // Drop files whose @mention was deleted.
            const isStill = (path: string) => !isNamed(draft.content, path) || isNamed(content, path)
            change({ content, files: draft.files.filter(isStill) })
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
            attach(event.target.files ?? [])
            event.target.value = ''
          }}
        />
        <IconButton icon="clip" name={text.composer.attach} onClick={() => picker.current?.click()} />
        {queue?.active && (
          <Button look="danger" icon="stop" onClick={() => void stop()}>
            {text.composer.stop}
          </Button>
        )}
        <Button type="submit" look="main" icon="send" disabled={draft.content.trim() === ''}>
          {queue?.active ? text.composer.queue : text.composer.send}
        </Button>
      </div>
      {options ?? <ConversationOptions conversationId={conversationId} />}
    </form>
  )
}

/** Queued messages, each with a button that removes it. */
function Waiting({ queue, conversationId }: { queue: QueueView | null; conversationId: string }) {
  const { attempt, show } = useToasts()
  if (!queue || queue.items.length === 0) return null

  async function takeOut(item: QueueView['items'][number]): Promise<void> {
    // Load the attachments first: they can be read only while the message is queued.
    const draft = await draftOf(conversationId, item)
    await server.removeQueued(conversationId, item.run_id)
    const message = text.composer.takenOut(shortened(item.content, 60))
    const run = async () => takeBack(conversationId, draft)
    show({ message, conversationId, actions: [{ label: text.composer.takeBack, run }] })
  }

  return (
    <ol className="chips waiting" aria-label={text.composer.waiting}>
      {queue.items.map((item) => (
        <li key={item.run_id} className="chip">
          <span className="position">{item.position}</span>
          {shortened(item.content, 60)}
          {item.active_files.length + item.attachments.length > 0 && <Along />}
          <IconButton
            icon="close"
            name={text.composer.remove(shortened(item.content, 30))}
            onClick={() => {
              focusComposer()
              void attempt(() => takeOut(item))
            }}
          />
        </li>
      ))}
    </ol>
  )
}

/** Messages whose delivery is unknown. Resending one unchanged is safe, because its key is accepted once. */
function Unsent({
  drafts,
  conversationId,
  onAgain,
}: {
  drafts: readonly Draft[]
  conversationId: string
  onAgain(): void
}) {
  if (drafts.length === 0) return null
  return (
    <ul className="chips waiting" aria-label={text.composer.unsent}>
      {drafts.map((draft) => (
        <li key={draft.key} className="chip">
          <span className="position">{text.composer.notSent}</span>
          {shortened(draft.content, 60)}
          {draft.files.length + draft.attached.length > 0 && <Along />}
          <IconButton icon="send" name={text.composer.sendAgain} onClick={onAgain} />
          <IconButton
            icon="edit"
            name={text.composer.takeBack}
            onClick={() => {
              focusComposer()
              takeBack(conversationId, draft)
            }}
          />
        </li>
      ))}
    </ul>
  )
}

function Along() {
  return (
    <span title={text.composer.withMore}>
      <Icon name="clip" />
      <span className="hidden">{text.composer.withMore}</span>
    </span>
  )
}
