import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Virtualizer, type VirtualizerHandle } from 'virtua'
import type { MessageEntry, RunEntry, Transcript } from '../../src/replay/transcript.ts'
import { Composer } from '../composer/composer.tsx'
import { Button } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { useNotices } from '../controls/notices.tsx'
import { useShortcuts } from '../keyboard.ts'
import { server } from '../server.ts'
import { text } from '../text.ts'
import { DeleteDialog } from './delete-dialog.tsx'
import { ForkDialog, type ForkPlace } from './fork-dialog.tsx'
import { MarkRow } from './mark.tsx'
import { type MessageAction, MessageRow } from './message.tsx'
import { OpenPartsProvider } from './open-parts.tsx'
import { RestoreDialog } from './restore-dialog.tsx'
import { eventOf, type Row, rowsOf } from './rows.ts'
import { RunEnd, RunHead, RunItem } from './run-parts.tsx'
import { keepPlace, keptPlace } from './scroll-place.ts'
import type { FeedView } from './use-feed.ts'

type Asked =
  | { type: 'restore'; checkpointId: string }
  | { type: 'fork'; place: ForkPlace }
  | { type: 'delete'; message: MessageEntry }

export function TranscriptView({ feed, isUntitled }: { feed: FeedView; isUntitled: boolean }) {
  const { conversationId, transcript, queue } = feed
  const { attempt } = useNotices()
  const [asked, setAsked] = useState<Asked | null>(null)
  const close = useCallback(() => setAsked(null), [])

  const act = useCallback((action: MessageAction, message: MessageEntry) => {
    const { messageId, content, checkpointId } = message
    if (action === 'restore' && checkpointId !== null) setAsked({ type: 'restore', checkpointId })
    if (action === 'fork') setAsked({ type: 'fork', place: { messageId } })
    if (action === 'edit') setAsked({ type: 'fork', place: { messageId, content } })
    if (action === 'delete') setAsked({ type: 'delete', message })
  }, [])
  const forkBehind = useCallback(
    (eventNumber: number) => setAsked({ type: 'fork', place: { eventNumber } }),
    [],
  )
  const latest = useRef(transcript)
  latest.current = transcript
  const sendAgain = useCallback(
    (run: RunEntry) => {
      const question = questionOf(latest.current, run)
      if (question) void attempt(() => server.sendMessage(conversationId, { content: question.content }))
    },
    [conversationId, attempt],
  )

  return (
    <div className="conversation">
      <OpenPartsProvider key={conversationId}>
        {transcript ? (
          <Rows feed={feed} transcript={transcript} onAct={act} onFork={forkBehind} onAgain={sendAgain} />
        ) : (
          <p className="loading">{text.loading}</p>
        )}
      </OpenPartsProvider>
      <Composer key={conversationId} conversationId={conversationId} queue={queue} isUntitled={isUntitled} />
      {asked?.type === 'restore' && (
        <RestoreDialog conversationId={conversationId} checkpointId={asked.checkpointId} onClose={close} />
      )}
      {asked?.type === 'fork' && (
        <ForkDialog conversationId={conversationId} place={asked.place} onClose={close} />
      )}
      {asked?.type === 'delete' && transcript && (
        <DeleteDialog
          conversationId={conversationId}
          message={asked.message}
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
  onAct(action: MessageAction, message: MessageEntry): void
  onFork(eventNumber: number): void
  onAgain(run: RunEntry): void
}

/** Closer to the end than this counts as being there. */
const NEAR_END = 60
/** Closer to the beginning than this, what lies before it is fetched. */
const NEAR_START = 2500

function Rows({ feed, transcript, onAct, onFork, onAgain }: RowsProps) {
  const { conversationId, earlier } = feed
  const rows = useMemo(() => rowsOf(transcript), [transcript])
  const scroller = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const [isAtEnd, setAtEnd] = useState(true)
  const sticks = useRef(true)
  const [kept] = useState(() => keptPlace(conversationId))
  const isPlaced = useRef(false)
  const lastTop = useRef(0)
  const from = useRef(transcript.from)
  const isPrepended = transcript.from < from.current

  // Where one was before a reload; otherwise at the end.
  useLayoutEffect(() => {
    if (isPlaced.current || rows.length === 0) return
    if (kept && kept.at < transcript.from) return void earlier().catch(() => {})
    isPlaced.current = true
    const index = kept ? rows.findIndex((row) => row.key === kept.key) : -1
    if (kept && index >= 0) {
      sticks.current = false
      list.current?.scrollToIndex(index, { align: 'start', offset: kept.offset })
    } else list.current?.scrollToIndex(rows.length - 1, { align: 'end' })
  }, [rows, kept, transcript.from, earlier])

  // Whoever is at the end stays there while it grows.
  useLayoutEffect(() => {
    from.current = transcript.from
    if (isPlaced.current && sticks.current && rows.length > 0)
      list.current?.scrollToIndex(rows.length - 1, { align: 'end' })
  }, [rows, transcript.from])

  // A card that opens or a picture that comes in makes the end move, too.
  useEffect(() => {
    const content = scroller.current?.firstElementChild
    if (!content) return
    const watch = new ResizeObserver(() => {
      const element = scroller.current
      if (element && sticks.current) element.scrollTop = element.scrollHeight
    })
    watch.observe(content)
    if (scroller.current) watch.observe(scroller.current)
    return () => watch.disconnect()
  }, [])

  const fetchEarlier = useCallback(() => {
    if (transcript.from > 1) void earlier().catch(() => {})
  }, [transcript.from, earlier])

  // Fill the screen, and a little more.
  useEffect(() => {
    const element = scroller.current
    if (element && element.scrollTop < NEAR_START) fetchEarlier()
  }, [fetchEarlier])

  function scrolled(): void {
    const element = scroller.current
    const handle = list.current
    if (!element || !handle) return
    const left = element.scrollHeight - element.scrollTop - element.clientHeight
    // Only going up leaves the end: what grows below moves it away by itself.
    if (left < NEAR_END) sticks.current = true
    else if (element.scrollTop < lastTop.current) sticks.current = false
    lastTop.current = element.scrollTop
    setAtEnd(sticks.current)
    if (element.scrollTop < NEAR_START) fetchEarlier()
    const index = handle.findItemIndex(handle.scrollOffset)
    const row = rows[index]
    if (row && isPlaced.current) {
      const offset = handle.scrollOffset - handle.getItemOffset(index)
      keepPlace(conversationId, sticks.current ? null : { key: row.key, at: eventOf(row), offset })
    }
  }

  function toEnd(): void {
    sticks.current = true
    list.current?.scrollToIndex(rows.length - 1, { align: 'end' })
  }

  /** To the message before or after the one at the top. */
  function step(direction: 1 | -1): void {
    const handle = list.current
    if (!handle) return
    const current = handle.findItemIndex(handle.scrollOffset + 8)
    const isMessage = (row: Row | undefined) => row?.type === 'message'
    let index = current + direction
    while (index >= 0 && index < rows.length && !isMessage(rows[index])) index += direction
    if (index < 0 || index >= rows.length) return direction > 0 ? toEnd() : undefined
    sticks.current = false
    handle.scrollToIndex(index, { align: 'start' })
  }

  useShortcuts({
    j: () => step(1),
    k: () => step(-1),
    G: toEnd,
    g: () => {
      sticks.current = false
      list.current?.scrollToIndex(0)
    },
  })

  return (
    <>
      <section
        ref={scroller}
        className="transcript"
        aria-label={text.transcript.name}
        tabIndex={0}
        onScroll={scrolled}
      >
        <div className="rows">
          {transcript.from > 1 && <p className="loading">{text.transcript.earlier}</p>}
          {rows.length === 0 && <Empty />}
          <Virtualizer ref={list} scrollRef={scroller} shift={isPrepended} data={rows} bufferSize={800}>
            {(row) => (
              <div key={row.key} className={`row ${row.type}`} data-row={row.key}>
                <RowView row={row} conversationId={conversationId} {...{ onAct, onFork, onAgain }} />
              </div>
            )}
          </Virtualizer>
        </div>
      </section>
      {!isAtEnd && (
        <Button className="to-end" icon="down" onClick={toEnd}>
          {text.transcript.toEnd}
        </Button>
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
      return <MessageRow message={row.message} onAct={onAct} />
    case 'run':
      return <RunHead run={row.run} />
    case 'item':
      return (
        <RunItem
          item={row.item}
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
