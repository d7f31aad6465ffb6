import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Fragment, useMemo, useState } from 'react'
import type { ContextPartView, ResponseDetails } from '../../src/protocol/api/context.ts'
import { shortened } from '../../src/protocol/title.ts'
import type { Transcript } from '../../src/replay/transcript.ts'
import { Foldable } from '../controls/foldable.tsx'
import { More } from '../controls/more.tsx'
import { dateOf, numberOf, usageText } from '../format.ts'
import { Link } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { CopyButton } from '../transcript/code-block.tsx'
import { Highlighted } from '../transcript/highlight.tsx'
import { textsOfParts } from './part-texts.ts'
import { estimateOf, groupParts, nameOfOrigin, tokensOf, withHeld } from './parts.ts'

interface ContextProps {
  conversationId: string
  at: number | null
  responseId: string | null
  /** The loaded part of the transcript. */
  transcript: Transcript | null
}

/** The model requests, each by origin and tokens, as a chart and in full. */
export function ContextView({ conversationId, at, responseId, transcript }: ContextProps) {
  const list = useInfiniteQuery({
    queryKey: [...keys.responses(conversationId), 'list'],
    queryFn: ({ pageParam }) =>
      server.responses(conversationId, { limit: 30, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  })
  const responses = list.data?.pages.flatMap((page) => page.items) ?? []
  const wanted = responseId ?? (at === null ? responses[0]?.response_id : undefined)
  const chosen = useQuery({
    queryKey: [...keys.responses(conversationId), 'chosen', wanted ?? null, at],
    queryFn: async () => {
      const id = wanted ?? (await server.context(conversationId, { at: at ?? undefined })).response_id
      return await server.response(conversationId, id)
    },
    enabled: list.isSuccess && (wanted !== undefined || at !== null),
  })
  const total = useQuery({
    queryKey: [...keys.responses(conversationId), 'total'],
    queryFn: () => server.usage(conversationId),
  })
  if (list.isPending) return <p className="loading">{text.looking}</p>
  if (list.isError) return <p className="failure">{explain(list.error)}</p>
  if (responses.length === 0) return <p className="empty">{text.context.none}</p>
  return (
    <div className="context">
      <nav className="responses" aria-label={text.context.responses}>
        {total.data && (
          <p className="quiet total">
            {text.context.total(
              usageText({
                input: total.data.input_tokens,
                output: total.data.output_tokens,
                cached: total.data.cached_tokens,
                cost: total.data.cost ?? undefined,
              }),
            )}
          </p>
        )}
        <ul>
          {responses.map((response) => (
            <li key={response.response_id}>
              <Link
                to={{ conversationId, view: 'context', response: response.response_id }}
                aria-current={response.response_id === chosen.data?.response_id ? 'true' : undefined}
              >
                <span>
                  {questionOf(transcript, response.message_id) ?? text.context.request(response.event_number)}
                  <span className={`response-status ${response.status}`}>
                    {text.context.status[response.status]}
                  </span>
                </span>
                <span className="quiet">
                  {dateOf(response.created_at)}
                  {response.usage && ` · ${text.context.tokens(numberOf(response.usage.input_tokens))}`}
                </span>
              </Link>
            </li>
          ))}
        </ul>
        <More list={list} />
      </nav>
      <div className="scrolls">
        {chosen.isError && <p className="failure">{explain(chosen.error)}</p>}
        {chosen.data && <Response key={chosen.data.response_id} response={chosen.data} />}
        <Next conversationId={conversationId} />
      </div>
    </div>
  )
}

function questionOf(transcript: Transcript | null, messageId: string): string | null {
  const asked = transcript?.entries.find((entry) => entry.type === 'message' && entry.messageId === messageId)
  return asked?.type === 'message' ? shortened(asked.content, 60) : null
}

function Response({ response }: { response: ResponseDetails }) {
  return (
    <article>
      <h2>{text.context.title}</h2>
      <blockquote className="said-short">{response.question}</blockquote>
      <p>{text.context.chain[response.chain]}</p>
      <dl className="facts">
        <dt>{text.context.model}</dt>
        <dd>{response.model}</dd>
        {response.provider_id !== null && (
          <>
            <dt>{text.context.providerId}</dt>
            <dd>
              <code>{response.provider_id}</code>
            </dd>
          </>
        )}
        {response.usage && (
          <>
            <dt>{text.context.usage}</dt>
            <dd>
              {usageText({
                input: response.usage.input_tokens,
                output: response.usage.output_tokens,
                cached: response.usage.cached_tokens,
                cost: response.usage.cost,
              })}
            </dd>
          </>
        )}
        <dt>{text.context.estimate}</dt>
        <dd>
          {text.context.estimated(numberOf(estimateOf(response)))}{' '}
          <span className="quiet">{text.context.estimateMeans}</span>
        </dd>
        {response.error && (
          <>
            <dt>{text.context.error}</dt>
            <dd className="failure">{response.error.message}</dd>
          </>
        )}
      </dl>
      <Picture parts={withHeld(response)} />
      <PartsTable parts={withHeld(response)} request={response.request} />
      <Body name={text.context.requestBody} body={response.request} />
      {response.response !== null && <Body name={text.context.responseBody} body={response.response} />}
    </article>
  )
}

/** One bar for sent parts and one for parts not sent, with widths proportional to tokens. */
function Picture({ parts }: { parts: readonly ContextPartView[] }) {
  const sent = groupParts(parts, true)
  const known = groupParts(parts, false)
  const most = Math.max(tokensOf(sent), tokensOf(known), 1)
  const bars = [
    { name: text.context.sent, groups: sent },
    { name: text.context.notSent, groups: known },
  ].filter(({ groups }) => groups.length > 0)
  return (
    <div className="picture">
      {bars.map(({ name, groups }) => (
        <figure key={name}>
          <figcaption>
            {name} <strong>{text.context.tokens(numberOf(tokensOf(groups)))}</strong>
          </figcaption>
          <div className="bar" aria-hidden="true">
            {groups.map((group) => (
              <span
                key={group.type}
                className={`origin ${group.type}`}
                style={{ width: `${(group.tokens / most) * 100}%` }}
                title={text.context.share(originName(group.type), numberOf(group.tokens))}
              />
            ))}
          </div>
          <ul className="legend">
            {groups.map((group) => (
              <li key={group.type}>
                <span className={`origin ${group.type}`} aria-hidden="true" />
                {originName(group.type)}{' '}
                <span className="quiet">{text.context.groupOf(group.count, numberOf(group.tokens))}</span>
              </li>
            ))}
          </ul>
        </figure>
      ))}
    </div>
  )
}

function originName(type: string): string {
  return text.context.origins[type] ?? type
}

const SHOWN_PARTS = 200

function PartsTable({ parts, request }: { parts: readonly ContextPartView[]; request: string }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set())
  const texts = useMemo(() => textsOfParts(request, parts), [request, parts])
  const hidden = Math.max(0, parts.length - SHOWN_PARTS)
  const toggle = (index: number) =>
    setOpen((before) => {
      const after = new Set(before)
      if (!after.delete(index)) after.add(index)
      return after
    })
  return (
    <div className="table" tabIndex={0} role="group" aria-label={text.context.parts}>
      <table>
        <thead>
          <tr>
            <th scope="col">{text.context.origin}</th>
            <th scope="col" className="align-right">
              {text.context.tokensHead}
            </th>
            <th scope="col">{text.context.isSent}</th>
            <th scope="col">{text.context.why}</th>
          </tr>
        </thead>
        <tbody>
          {parts.slice(hidden).map((part, shown) => {
            const index = hidden + shown
            const isOpen = open.has(index)
            return (
              <Fragment key={index}>
                <tr className={part.sent ? '' : 'quiet'}>
                  <td>
                    <button
                      type="button"
                      className="part"
                      aria-expanded={isOpen}
                      onClick={() => toggle(index)}
                    >
                      <span className={`origin ${part.origin.type}`} aria-hidden="true" />{' '}
                      {originName(part.origin.type)}{' '}
                      <span className="quiet">{nameOfOrigin(part.origin)}</span>
                    </button>
                  </td>
                  <td className="align-right">{numberOf(part.tokens)}</td>
                  <td>{part.sent ? text.yes : text.no}</td>
                  <td>{part.why}</td>
                </tr>
                {isOpen && (
                  <tr>
                    <td colSpan={4} className="part-text">
                      {texts[index] == null ? (
                        <p className="quiet">{part.sent ? text.context.seeBody : text.context.notInBody}</p>
                      ) : (
                        <pre tabIndex={0}>{texts[index]}</pre>
                      )}
                    </td>
                  </tr>
                )}
              </Fragment>
            )
          })}
        </tbody>
      </table>
      {hidden > 0 && <p className="quiet">{text.andMore(hidden)}</p>}
    </div>
  )
}

/** Formatted JSON, or the exact bytes on request. */
function Body({ name, body }: { name: string; body: string }) {
  const [isOpen, setOpen] = useState(false)
  const [isRaw, setRaw] = useState(false)
  return (
    <Foldable isOpen={isOpen} onToggle={() => setOpen(!isOpen)} heading={<span>{name}</span>}>
      <div className="body-tools">
        <label>
          <input type="checkbox" checked={isRaw} onChange={(event) => setRaw(event.target.checked)} />{' '}
          {text.context.raw}
        </label>
        <CopyButton content={body} />
      </div>
      <pre className="body" tabIndex={0}>
        {isRaw ? body : <Highlighted code={laidOut(body)} language="json" />}
      </pre>
    </Foldable>
  )
}

function laidOut(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}

function Next({ conversationId }: { conversationId: string }) {
  const next = useQuery({
    queryKey: [...keys.responses(conversationId), 'next'],
    queryFn: async () => (await server.context(conversationId)).next,
  })
  if (!next.data) return null
  return (
    <article>
      <h2>{text.context.next}</h2>
      <p>{text.context.chain[next.data.chain]}</p>
      <Picture parts={withHeld(next.data)} />
    </article>
  )
}
