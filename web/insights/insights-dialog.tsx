import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Stats, Totals } from '../../src/protocol/api/stats.ts'
import { Dialog } from '../controls/dialog.tsx'
import { numberOf } from '../format.ts'
import { Link } from '../location.tsx'
import { explain, server } from '../server.ts'
import { text } from '../text.ts'

const LISTED = 8
const DAY_MS = 24 * 60 * 60 * 1000
const MOST_DAYS = 366

const PERIODS = [1, 7, 30, 90, 365] as const

/** What a period took: tokens, time, calls and edits. */
export function InsightsDialog({ onClose }: { onClose(): void }) {
  const [days, setDays] = useState<number>(30)
  const stats = useQuery({
    queryKey: ['stats', days],
    queryFn: () => server.stats({ since: new Date(Date.now() - days * DAY_MS).toISOString() }),
    staleTime: 0,
  })
  return (
    <Dialog title={text.insights.title} onClose={onClose} wide>
      <select
        className="insight-period"
        aria-label={text.insights.period}
        value={days}
        onChange={(event) => setDays(Number(event.target.value))}
      >
        {PERIODS.map((one) => (
          <option key={one} value={one}>
            {text.insights.last(one)}
          </option>
        ))}
      </select>
      {stats.isPending && <p>{text.looking}</p>}
      {stats.isError && <p className="failure">{explain(stats.error)}</p>}
      {stats.isSuccess && <Counted stats={stats.data} />}
    </Dialog>
  )
}

function Counted({ stats }: { stats: Stats }) {
  const { totals, by_day, by_model, by_agent, by_conversation, tools, compactions } = stats
  if (totals.runs + totals.calls + totals.edits === 0) return <p>{text.insights.none}</p>
  return (
    <div className="insights">
      {stats.is_partial && <p className="failure">{text.insights.partial}</p>}
      <dl className="insight-totals">
        {text.insights.totals(totals).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Days days={by_day} />
      <Groups title={text.insights.byModel} rows={by_model.map((row) => ({ ...row, name: row.model }))} />
      <Groups title={text.insights.byAgent} rows={by_agent.map((row) => ({ ...row, name: row.agent }))} />
      <Groups
        title={text.insights.byConversation}
        rows={by_conversation.map((row) => ({
          ...row,
          name: row.title ?? row.conversation_id,
          to: row.conversation_id,
        }))}
      />
      {tools.length > 0 && (
        <section>
          <h3>{text.insights.tools}</h3>
          <ul>
            {tools.slice(0, LISTED).map(({ tool, calls, failed, seconds }) => (
              <li key={tool}>
                <Bar part={failed / Math.max(calls, 1)} look="failed" />
                <span>{tool}</span>
                <span className="quiet">{text.insights.calls(calls, failed, seconds)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {compactions.length > 0 && (
        <section>
          <h3>{text.insights.compactions}</h3>
          <ul>
            {compactions.slice(-LISTED).map((one) => (
              <li key={`${one.conversation_id} ${one.event_number}`}>
                <Link to={{ conversationId: one.conversation_id, view: 'timeline', at: one.event_number }}>
                  {text.insights.compaction(one.strategy, one.tokens_before, one.tokens_after)}
                </Link>
                <span className="quiet">{text.insights.dropped(one.dropped)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  )
}

const tokensOf = ({ input_tokens, output_tokens }: Totals) => input_tokens + output_tokens

/** Tokens by day, as bars. */
function Days({ days }: { days: Stats['by_day'] }) {
  const most = Math.max(...days.map(tokensOf), 1)
  return (
    <section>
      <h3>{text.insights.byDay}</h3>
      <ol className="insight-days">
        {everyDay(days).map((day) => (
          <li key={day.day} title={text.insights.day(day)}>
            <span className="bar" style={{ height: `${Math.max(2, (tokensOf(day) / most) * 80)}px` }} />
            <span className="quiet">{day.day.slice(5)}</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

/** Days without use have bars of no height between the others. */
function everyDay(days: Stats['by_day']): Stats['by_day'] {
  const [first, last] = [days[0], days.at(-1)]
  if (!first || !last) return []
  const known = new Map(days.map((day) => [day.day, day]))
  const none = Object.fromEntries(Object.keys(first).map((name) => [name, 0])) as unknown as Totals
  const all: Stats['by_day'] = []
  for (let at = Date.parse(first.day); at <= Date.parse(last.day) && all.length < MOST_DAYS; at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10)
    all.push(known.get(day) ?? { ...none, day })
  }
  return all
}

function Groups({
  title,
  rows,
}: {
  title: string
  rows: readonly (Totals & { name: string; to?: string })[]
}) {
  const most = Math.max(...rows.map(tokensOf), 1)
  if (rows.length === 0) return null
  return (
    <section>
      <h3>{title}</h3>
      <ul>
        {rows.slice(0, LISTED).map((row) => (
          <li key={row.to ?? row.name}>
            <Bar part={tokensOf(row) / most} />
            {row.to === undefined ? (
              <span>{row.name}</span>
            ) : (
              <Link to={{ conversationId: row.to }}>{row.name}</Link>
            )}
            <span className="quiet">{text.insights.group(numberOf(tokensOf(row)), row)}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Bar({ part, look = 'tokens' }: { part: number; look?: 'tokens' | 'failed' }) {
  return (
    <span className={`insight-bar ${look}`} aria-hidden="true">
      <span style={{ width: `${Math.round(part * 100)}%` }} />
    </span>
  )
}
