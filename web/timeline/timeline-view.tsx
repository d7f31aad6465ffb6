import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useDeferredValue, useEffect, useMemo, useRef } from 'react'
import type { Message } from '../../src/protocol/api/ledger.ts'
import { Boundary } from '../controls/boundary.tsx'
import { Button, IconButton } from '../controls/button.tsx'
import { dateOf } from '../format.ts'
import { useShortcuts } from '../keyboard.ts'
import { go } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { OpenPartsProvider } from '../transcript/open-parts.tsx'
import { ReadOnly } from '../transcript/read-only.ts'
import { rowsOf } from '../transcript/rows.ts'
import { RowView } from '../transcript/transcript-view.tsx'
import { FilesThen } from './files-then.tsx'
import { type Replay, speeds, useReplay } from './use-replay.ts'

interface TimelineProps {
  conversationId: string
  head: number | null
  /** Changes whenever events leave the line. */
  cutCount: number
  lastMessage: number
  at: number | null
}

export function TimelineView({ head, ...props }: TimelineProps) {
  if (head === null) return <p className="loading">{text.loading}</p>
  return <Timeline head={head} {...props} />
}

const MAX_MESSAGES = 20_000
/** More ticks would merge into a solid line. */
const MAX_TICKS = 500

function Timeline({
  conversationId,
  head,
  cutCount,
  lastMessage,
  at: start,
}: TimelineProps & { head: number }) {
  const replay = useReplay(conversationId, head, cutCount, start)
  const { at } = replay
  const messages = useQuery({
    queryKey: [...keys.conversation(conversationId), 'messages', lastMessage, cutCount],
    queryFn: ({ signal }) => allMessages(conversationId, signal),
    placeholderData: keepPreviousData,
  })
  const asked = useMemo(() => (messages.data ?? []).filter(({ role }) => role === 'user'), [messages.data])
  const ticks = asked.filter((_, index) => index % Math.ceil(asked.length / MAX_TICKS) === 0)

  // Keep the address in sync, so that it can be shared; an address change moves the view.
  const written = useRef(start)
  const { move } = replay
  useEffect(() => {
    if (start !== written.current) move(start ?? head)
    written.current = start
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only an address change moves the view
  }, [start])
  useEffect(() => {
    const timer = setTimeout(() => {
      written.current = at === head ? null : at
      go({ conversationId, view: 'timeline', at: written.current }, 'replace')
    }, 300)
    return () => clearTimeout(timer)
  }, [conversationId, at, head])

  const toMessage = (direction: 1 | -1) => {
    const places = asked.map((message) => message.event_number)
    const next = direction > 0 ? places.find((place) => place > at) : places.findLast((place) => place < at)
    replay.move(next ?? (direction > 0 ? head : 1))
  }
  useShortcuts({
    ' ': () => replay.play(!replay.isPlaying),
    ArrowLeft: () => replay.move(at - 1),
    ArrowRight: () => replay.move(at + 1),
    '[': () => toMessage(-1),
    ']': () => toMessage(1),
    Home: () => replay.move(1),
    End: () => replay.move(head),
  })

  return (
    <div className="timeline">
      <Scrubber replay={replay} head={head} ticks={ticks} toMessage={toMessage} />
      {replay.error !== null && <p className="failure">{explain(replay.error)}</p>}
      <div className="timeline-parts">
        <section className="timeline-transcript" aria-label={text.timeline.transcript} tabIndex={0}>
          <ReadOnly value={true}>
            <OpenPartsProvider>
              <RowsThen replay={replay} conversationId={conversationId} />
            </OpenPartsProvider>
          </ReadOnly>
        </section>
        <FilesThen
          conversationId={conversationId}
          at={at}
          isNow={at === head}
          transcript={replay.transcript}
        />
      </div>
    </div>
  )
}

async function allMessages(conversationId: string, signal: AbortSignal): Promise<Message[]> {
  const found: Message[] = []
  let cursor: string | undefined
  do {
    const page = await server.messages(conversationId, { limit: 200, ...(cursor ? { cursor } : {}) })
    found.push(...page.items)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined && found.length < MAX_MESSAGES && !signal.aborted)
  return found
}

function Scrubber({
  replay,
  head,
  ticks,
  toMessage,
}: {
  replay: Replay
  head: number
  ticks: readonly Message[]
  toMessage(direction: 1 | -1): void
}) {
  const { at, frame, isPlaying } = replay
  return (
    <div className="scrubber" role="group" aria-label={text.timeline.name}>
      <div className="scrubber-buttons">
        <IconButton
          icon={isPlaying ? 'pause' : 'play'}
          name={isPlaying ? text.timeline.pause : text.timeline.play}
          onClick={() => replay.play(!isPlaying)}
        />
        <IconButton icon="back" name={text.timeline.previous} onClick={() => toMessage(-1)} />
        <IconButton icon="forward" name={text.timeline.next} onClick={() => toMessage(1)} />
        <label>
          <span className="hidden">{text.timeline.speed}</span>
          <select value={replay.speed} onChange={(event) => replay.setSpeed(Number(event.target.value))}>
            {speeds.map((speed) => (
              <option key={speed} value={speed}>
                {text.timeline.times(speed)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div className="scrubber-line">
        <input
          type="range"
          min={1}
          max={head}
          value={at}
          aria-label={text.timeline.event}
          aria-valuetext={text.timeline.place(at, head, frame?.kind ?? '')}
          onChange={(event) => replay.move(event.target.valueAsNumber)}
        />
        <div className="ticks" aria-hidden="true">
          {ticks.map(({ message_id, event_number }) => (
            <span
              key={message_id}
              style={{ left: `${((event_number - 1) / Math.max(1, head - 1)) * 100}%` }}
            />
          ))}
        </div>
      </div>
      <div className="scrubber-place">
        <strong>{text.timeline.of(at, head)}</strong>
        {frame && (
          <>
            <code>{frame.kind}</code>
            <time dateTime={frame.server_timestamp}>{dateOf(frame.server_timestamp)}</time>
          </>
        )}
        <Button look="quiet" disabled={at === head} onClick={() => replay.move(head)}>
          {text.timeline.now}
        </Button>
      </div>
    </div>
  )
}

const SHOWN_ROWS = 60
const nothing = () => {}

/** The end of the transcript at this event, read-only. */
function RowsThen({ replay, conversationId }: { replay: Replay; conversationId: string }) {
  const transcript = useDeferredValue(replay.transcript)
  const end = useRef<HTMLDivElement>(null)
  const rows = useMemo(() => (transcript ? rowsOf(transcript).slice(-SHOWN_ROWS) : []), [transcript])
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' })
  }, [rows])
  return (
    <div className="rows then">
      {rows.length === 0 && <p className="quiet">{text.timeline.nothingYet}</p>}
      {rows.map((row) => (
        <div key={row.key} className={`row ${row.type}`}>
          <Boundary>
            <RowView
              row={row}
              conversationId={conversationId}
              onAct={nothing}
              onFork={nothing}
              onAgain={nothing}
            />
          </Boundary>
        </div>
      ))}
      <div ref={end} />
    </div>
  )
}
