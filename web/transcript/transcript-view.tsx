import { useQuery } from '@tanstack/react-query'
import { useCallback, useMemo, useRef, useState } from 'react'
import { Virtualizer } from 'virtua'
import type { MessageEntry, RunEntry, Transcript } from '../../src/replay/transcript.ts'
import { readSent } from '../composer/attachments.ts'
import { Composer } from '../composer/composer.tsx'
import { focusComposer } from '../composer/focus.ts'
import { sendAlso } from '../composer/outbox.ts'
import { Boundary } from '../controls/boundary.tsx'
import { Button } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { useShortcuts } from '../keyboard.ts'
import { useAskRestore } from '../restoring/ask-restore.tsx'
import { keys, server } from '../server.ts'
import { text } from '../text.ts'
import { DeleteDialog } from './delete-dialog.tsx'
import { ForkDialog, type ForkPlace } from './fork-dialog.tsx'
import { MarkRow } from './mark.tsx'
import { type MessageAction, MessageRow } from './message.tsx'
import { eventOf, type Row, rowsOf } from './rows.ts'
import { RunEnd, RunHead, RunItem } from './run-parts.tsx'
import type { FeedView } from './use-feed.ts'
import { useScroll } from './use-scroll.ts'

type OpenDialog = { type: 'fork'; place: ForkPlace } | { type: 'delete'; message: MessageEntry }

export function TranscriptView({
  feed,
  title,
  at,
}: {
  feed: FeedView
  title: string
  /** The event to show; null for where the reader was. */
  at: number | null
}) {
  const { conversationId, transcript, queue } = feed
  const { attempt } = useToasts()
  const [dialog, setDialog] = useState<OpenDialog | null>(null)
  const askRestore = useAskRestore()
  const own = useQuery({
    queryKey: keys.conversation(conversationId),
    queryFn: () => server.conversation(conversationId),
  })
  const hasFiles = own.data?.workspace_id !== null
  const close = useCallback(() => setDialog(null), [])

  const act = useCallback(
    (action: MessageAction, message: MessageEntry) => {
      const { checkpointId } = message
      if (action === 'restore' && checkpointId !== null) askRestore(checkpointId)
      if (action === 'fork') setDialog({ type: 'fork', place: { type: 'before', message } })
      if (action === 'edit') setDialog({ type: 'fork', place: { type: 'reworded', message } })
      if (action === 'delete') setDialog({ type: 'delete', message })
    },
    [askRestore],
  )
  const forkAfter = useCallback(
    (eventNumber: number) => setDialog({ type: 'fork', place: { type: 'after', eventNumber } }),
    [],
  )
  const latest = useRef(transcript)
  latest.current = transcript
  const sendAgain = useCallback(
    (run: RunEntry) => {
      const question = questionOf(latest.current, run)
      if (!question) return
      const { content, activeFiles: files, attachments } = question
      void attempt(async () => {
        const attached = await readSent(conversationId, attachments)
        // The fixed key makes repeated presses send it once.
        await sendAlso(conversationId, { content, files, attached, key: `again_${run.runId}` })
      })
    },
    [conversationId, attempt],
  )

  return (
    <div className="conversation">
      {transcript ? (
        <Rows
          feed={feed}
          transcript={transcript}
          at={at}
          onAct={act}
          onFork={forkAfter}
          onAgain={sendAgain}
        />
      ) : (
        <p className="loading">{text.loading}</p>
      )}
      {hasFiles ? (
        <Composer key={conversationId} conversationId={conversationId} queue={queue} />
      ) : (
        <div className="composer">
          <p className="quiet">{text.fork.noFiles}</p>
          <Button icon="fork" look="main" onClick={() => forkAfter(own.data?.head_event_number ?? 0)}>
            {text.fork.toContinue}
          </Button>
        </div>
      )}
      {dialog?.type === 'fork' && (
        <ForkDialog conversationId={conversationId} place={dialog.place} title={title} onClose={close} />
      )}
      {dialog?.type === 'delete' && transcript && (
        <DeleteDialog
          conversationId={conversationId}
          message={dialog.message}
          transcript={transcript}
          queue={queue}
          onClose={close}
        />
      )}
    </div>
  )
}

function questionOf(transcript: Transcript | null, run: RunEntry): MessageEntry | null {
  const before = transcript?.entries.findLast((entry) => entry.type === 'message' && entry.at < run.at)
  return before?.type === 'message' ? before : null
}

interface RowsProps {
  feed: FeedView
  transcript: Transcript
  at: number | null
  onAct(action: MessageAction, message: MessageEntry): void
  onFork(eventNumber: number): void
  onAgain(run: RunEntry): void
}

function Rows({ feed, transcript, at, onAct, onFork, onAgain }: RowsProps) {
  const { conversationId, earlier } = feed
  const rows = useMemo(() => rowsOf(transcript), [transcript])
  const scroll = useScroll({ conversationId, rows, from: transcript.from, at, earlier })
  useShortcuts({
    j: () => scroll.step(1),
    k: () => scroll.step(-1),
    g: scroll.toStart,
    G: scroll.toEnd,
  })

  return (
    <>
      {transcript.from > 1 && <p className="hidden">{text.transcript.earlier}</p>}
      <section
        ref={scroll.scroller}
        className="transcript"
        data-head={transcript.head}
        aria-label={text.transcript.name}
        tabIndex={0}
        {...scroll.handlers}
      >
        <div className="rows">
          {rows.length === 0 && <Empty />}
          <Virtualizer
            ref={scroll.list}
            scrollRef={scroll.scroller}
            shift={scroll.isPrepended}
            data={rows}
            bufferSize={800}
          >
            {(row) => (
              <div
                key={row.key}
                className={row.key === scroll.target ? `row ${row.type} found` : `row ${row.type}`}
                data-row={row.key}
                data-at={eventOf(row)}
              >
                <Boundary>
                  <RowView row={row} conversationId={conversationId} {...{ onAct, onFork, onAgain }} />
                </Boundary>
              </div>
            )}
          </Virtualizer>
        </div>
      </section>
      {!scroll.isAtEnd && (
        <div className="to-end">
          <Button
            icon="down"
            onClick={() => {
              focusComposer()
              scroll.toEnd()
            }}
          >
            {text.transcript.toEnd}
          </Button>
        </div>
      )}
    </>
  )
}

function Empty() {
  return (
    <div className="empty">
      <Icon name="send" />
      <h2>{text.transcript.emptyTitle}</h2>
      <p>{text.transcript.empty}</p>
    </div>
  )
}

export function RowView({
  row,
  conversationId,
  onAct,
  onFork,
  onAgain,
}: { row: Row; conversationId: string } & Pick<RowsProps, 'onAct' | 'onFork' | 'onAgain'>) {
  switch (row.type) {
    case 'message':
      return <MessageRow message={row.message} conversationId={conversationId} onAct={onAct} />
    case 'run':
      return <RunHead run={row.run} />
    case 'item':
      return (
        <RunItem
          item={row.item}
          isLast={row.isLast}
          runId={row.run.runId}
          conversationId={conversationId}
          isOver={row.run.endedAt !== null}
        />
      )
    case 'run-end':
      return <RunEnd run={row.run} conversationId={conversationId} onFork={onFork} onAgain={onAgain} />
    case 'mark':
      return <MarkRow mark={row.mark} at={row.at} conversationId={conversationId} />
  }
}
