import { memo, useEffect, useState } from 'react'
import type { Item, ReasoningItem, RunEntry, TextItem } from '../../src/replay/transcript.ts'
import { focusComposer } from '../composer/focus.ts'
import { Button } from '../controls/button.tsx'
import { Foldable } from '../controls/foldable.tsx'
import { Icon } from '../controls/icon.tsx'
import { dateOf, durationOf, timeOf, usageText } from '../format.ts'
import { Link } from '../location.tsx'
import { useMay } from '../scopes.ts'
import { text } from '../text.ts'
import { isAsking } from './asking.ts'
import { CopyButton } from './code-block.tsx'
import { MarkRow } from './mark.tsx'
import { Markdown, SafeLink } from './markdown.tsx'
import { useOpen } from './open-parts.tsx'
import { useReadOnly } from './read-only.ts'
import { RowActions } from './row-actions.tsx'
import { ToolCard } from './tool-card.tsx'

export const RunHead = memo(function RunHead({ run }: { run: RunEntry }) {
  return (
    <div className="row-head">
      <span className="who">{run.agent ?? text.transcript.agent}</span>
      <time dateTime={run.startedAt} title={dateOf(run.startedAt)}>
        {timeOf(run.startedAt)}
      </time>
    </div>
  )
})

interface ItemProps {
  item: Item
  runId: string
  conversationId: string
  isOver: boolean
  /** True for the run's last item so far. */
  isLast: boolean
}

export const RunItem = memo(function RunItem({ item, runId, conversationId, isOver, isLast }: ItemProps) {
  switch (item.type) {
    case 'text':
      return <Answer item={item} isOver={isOver} isLast={isLast} />
    case 'reasoning':
      return <Reasoning item={item} runId={runId} />
    case 'tool':
      return <ToolCard tool={item} runId={runId} conversationId={conversationId} isOver={isOver} />
    case 'mark':
      return <MarkRow mark={item.mark} at={item.at} conversationId={conversationId} />
    case 'other':
      return <p className="quiet">{text.transcript.unknownItem(item.itemType)}</p>
  }
})

function Answer({ item, isOver, isLast }: { item: TextItem; isOver: boolean; isLast: boolean }) {
  const parts = item.parts.map((part) => (
    <div key={part.contentIndex} className="answer">
      <Markdown source={part.text} isOpen={item.status === 'in_progress' && !isOver} />
      {part.refusal !== null && (
        <p className="refusal">
          <strong>{text.transcript.refused}</strong> {part.refusal}
        </p>
      )}
      {part.citations.length > 0 && (
        <ol className="citations" aria-label={text.transcript.sources}>
          {part.citations.map((citation, index) => (
            <li key={index}>
              <Citation citation={citation} />
            </li>
          ))}
        </ol>
      )}
    </div>
  ))
  return (
    <>
      {parts}
      {item.status === 'incomplete' && !isLast && <p className="quiet">{text.transcript.brokenOff}</p>}
    </>
  )
}

function Citation({ citation }: { citation: Record<string, unknown> }) {
  const { url, title, filename, file_id } = citation
  const name = [title, filename, url, file_id].find((value) => typeof value === 'string' && value !== '')
  const shown = typeof name === 'string' ? name : String(citation.type)
  return typeof url === 'string' ? <SafeLink href={url}>{shown}</SafeLink> : <span>{shown}</span>
}

function Reasoning({ item, runId }: { item: ReasoningItem; runId: string }) {
  const [isOpen, toggle] = useOpen(`${runId} ${item.key}`, false)
  const isThinking = item.status === 'in_progress'
  return (
    <Foldable
      className="reasoning"
      isOpen={isOpen}
      onToggle={toggle}
      heading={<span>{isThinking ? text.transcript.thinking : text.transcript.thought}</span>}
    >
      {item.parts.map((part) => (
        <Markdown key={part.summaryIndex} source={part.text} isOpen={isThinking} />
      ))}
    </Foldable>
  )
}

interface RunEndProps {
  run: RunEntry
  conversationId: string
  onFork(eventNumber: number): void
  onAgain(run: RunEntry): void
}

export const RunEnd = memo(function RunEnd({ run, conversationId, onFork, onAgain }: RunEndProps) {
  const isReadOnly = useReadOnly()
  const mayWrite = useMay('conversations:write')
  if (run.endedAt === null) {
    return (
      <p className="at-work" role="status">
        <span className="dots" aria-hidden="true" />
        {isAsking(run) ? text.transcript.waitsForYou : text.transcript.atWork}
        {!isReadOnly && <Elapsed run={run} />}
      </p>
    )
  }
  const usage = run.final?.usage
  return (
    <>
      {run.error && <RunError run={run} error={run.error} onAgain={onAgain} />}
      {!run.error && run.status !== 'completed' && (
        <p className="run-status">
          <Icon name="alert" />
          {text.transcript.ended[run.status] ?? run.status}
          {run.reason !== null && ` (${run.reason})`}
        </p>
      )}
      <div className="run-end">
        <span>{text.transcript.took(durationOf(run.startedAt, run.endedAt, waitedIn(run)))}</span>
        {usage && (
          <span>
            {usageText({
              input: usage.input_tokens,
              output: usage.output_tokens,
              cached: usage.cached_input_tokens,
              cost: usage.cost,
            })}
          </span>
        )}
        {!isReadOnly && (
          <RowActions name={text.transcript.answerActions}>
            {run.final?.response_text && <CopyButton content={run.final.response_text} />}
            <Link className="button quiet" to={{ conversationId, view: 'context', at: run.upTo }}>
              <Icon name="eye" />
              {text.transcript.whatItSaw}
            </Link>
            <Button look="quiet" icon="fork" disabled={!mayWrite} onClick={() => onFork(run.upTo)}>
              {text.transcript.forkAfter}
            </Button>
          </RowActions>
        )}
      </div>
    </>
  )
})

const SECOND_MS = 1000

/** How long the run has taken so far, and the countdown to a retry. Not announced: it changes every second. */
function Elapsed({ run }: { run: RunEntry }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), SECOND_MS)
    return () => clearInterval(timer)
  }, [])
  const seconds = (ms: number) => Math.max(0, Math.round(ms / SECOND_MS))
  const left = run.retryAt === null ? 0 : seconds(Date.parse(run.retryAt) - now)
  return (
    <span className="quiet" aria-hidden="true">
      {text.transcript.elapsed(seconds(now - Date.parse(run.startedAt)))}
      {run.retryAt !== null && ` · ${run.reason ?? ''} ${text.transcript.retryIn(left)}`}
    </span>
  )
}

function RunError({
  run,
  error,
  onAgain,
}: {
  run: RunEntry
  error: NonNullable<RunEntry['error']>
  onAgain(run: RunEntry): void
}) {
  const isReadOnly = useReadOnly()
  const mayWrite = useMay('conversations:write')
  return (
    <div className="run-error" role="group" aria-label={text.transcript.failed}>
      <p>
        <Icon name="alert" />
        <strong>{text.transcript.failed}</strong> <code>{error.code}</code>
      </p>
      <p>{error.message}</p>
      <p className="quiet">{text.transcript.whatToDo(error.code, error.source, error.is_retryable)}</p>
      {!isReadOnly && (
        <Button
          icon="restore"
          disabled={!mayWrite}
          onClick={() => {
            focusComposer()
            onAgain(run)
          }}
        >
          {text.transcript.sendAgain}
        </Button>
      )}
    </div>
  )
}

/** Questions of calls that run at once overlap, but a person answers them one after the other. */
function waitedIn({ items }: RunEntry): number {
  return items.reduce((sum, item) => sum + (item.type === 'tool' ? item.waitedMs : 0), 0)
}
