import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, type ReactNode, useDeferredValue, useId, useRef, useState } from 'react'
import type { SearchFilters } from '../../src/protocol/api/conversations.ts'
import { Dialog } from '../controls/dialog.tsx'
import { whenOf } from '../format.ts'
import { go, Link, type Place } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { FoundEvent } from './found-event.tsx'

const SHOWN_EVENTS = 30
const SHOWN_CONVERSATIONS = 5

const noFilters = { kind: '', author: '', tool: '', path: '', since: '', until: '' }
type Typed = typeof noFilters

/** Finds conversations by their titles, and everything said, called and edited; the arrow keys choose a result. */
export function SearchDialog({
  conversationId,
  onClose,
}: {
  conversationId: string | null
  onClose(): void
}) {
  const [typed, setTyped] = useState('')
  const [filters, setFilters] = useState<Typed>(noFilters)
  const [isHere, setHere] = useState(false)
  const [chosen, setChosen] = useState(0)
  const list = useId()
  const results = useRef<HTMLUListElement>(null)
  const q = useDeferredValue(typed.trim())
  const wanted = useDeferredValue(filters)
  const isFiltered = Object.values(wanted).some((value) => value !== '') || isHere
  const here = isHere && conversationId !== null ? { conversation_id: conversationId } : {}

  const events = useQuery({
    queryKey: [...keys.conversations, 'search', q, wanted, here],
    queryFn: () => server.search({ q, limit: SHOWN_EVENTS, ...given(wanted), ...here }),
    enabled: q !== '',
    placeholderData: keepPreviousData,
  })
  const conversations = useQuery({
    queryKey: [...keys.conversations, 'search', q],
    queryFn: () => server.listConversations({ limit: SHOWN_CONVERSATIONS, ...(q === '' ? {} : { q }) }),
    enabled: !isFiltered,
    placeholderData: keepPreviousData,
  })
  const found = q === '' ? [] : (events.data?.items ?? [])
  const titles = useTitles(found.map(({ conversation_id }) => conversation_id))

  const options: { key: string; place: Partial<Place>; shown: ReactNode }[] = [
    ...(isFiltered ? [] : (conversations.data?.items ?? [])).map(({ id, title, updated_at }) => ({
      key: id,
      place: { conversationId: id },
      shown: (
        <>
          <span className="title">{title ?? text.conversations.untitled}</span>
          <span className="when">
            {text.search.conversation}
            <time dateTime={updated_at}>{whenOf(updated_at)}</time>
          </span>
        </>
      ),
    })),
    ...found.map((one) => ({
      key: `${one.conversation_id} ${one.event_number}`,
      place: { conversationId: one.conversation_id, at: one.event_number },
      shown: (
        <FoundEvent found={one} title={titles.get(one.conversation_id) ?? text.conversations.untitled} />
      ),
    })),
  ]
  const at = Math.min(chosen, options.length - 1)

  function move(to: number): void {
    setChosen(to)
    results.current?.children[to]?.scrollIntoView({ block: 'nearest' })
  }

  function press(event: KeyboardEvent): void {
    if (event.nativeEvent.isComposing || options.length === 0) return
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      move((at + step + options.length) % options.length)
    }
    if (event.key === 'Enter') {
      event.preventDefault()
      const option = options[at]
      if (!option) return
      onClose()
      go(option.place)
    }
  }

  function filter(name: keyof Typed, input: (value: string, change: (value: string) => void) => ReactNode) {
    const change = (value: string) => {
      setChosen(0)
      setFilters({ ...filters, [name]: value })
    }
    return (
      <label>
        {text.search.filters[name]}
        {input(filters[name], change)}
      </label>
    )
  }
  const word = (name: 'tool' | 'path') =>
    filter(name, (value, change) => (
      <input value={value} maxLength={200} onChange={(event) => change(event.target.value)} />
    ))
  const day = (name: 'since' | 'until') =>
    filter(name, (value, change) => (
      <input type="date" value={value} onChange={(event) => change(event.target.value)} />
    ))
  const choice = (name: 'kind' | 'author', choices: readonly (readonly [string, string])[]) =>
    filter(name, (value, change) => (
      <select value={value} onChange={(event) => change(event.target.value)}>
        {choices.map(([key, label]) => (
          <option key={key} value={key}>
            {label}
          </option>
        ))}
      </select>
    ))

  return (
    <Dialog title={text.search.title} onClose={onClose} wide>
      {/* The fields are part of the dialog's form, which has nothing to submit. */}
      <div className="palette" onKeyDown={press} role="presentation">
        <input
          type="search"
          role="combobox"
          aria-expanded={options.length > 0}
          aria-controls={list}
          aria-activedescendant={options[at] ? `${list}-${at}` : undefined}
          aria-label={text.search.words}
          placeholder={text.search.words}
          value={typed}
          onChange={(event) => {
            setChosen(0)
            setTyped(event.target.value)
          }}
        />
        <details>
          <summary>{text.search.filter}</summary>
          <div className="palette-filters">
            {choice('kind', [['', text.search.anything], ...Object.entries(text.search.kindNames)])}
            {choice('author', [['', text.search.anyone], ...Object.entries(text.search.authors)])}
            {word('tool')}
            {word('path')}
            {day('since')}
            {day('until')}
            {conversationId !== null && (
              <label className="palette-here">
                <input type="checkbox" checked={isHere} onChange={(event) => setHere(event.target.checked)} />
                {text.search.here}
              </label>
            )}
          </div>
        </details>
        {events.isError && q !== '' && <p className="failure">{explain(events.error)}</p>}
        {q !== '' && events.isSuccess && options.length === 0 && (
          <p className="quiet">{text.search.none(q)}</p>
        )}
        <ul ref={results} id={list} role="listbox" aria-label={text.search.results}>
          {options.map(({ key, place, shown }, index) => (
            <li key={key} id={`${list}-${index}`} role="option" aria-selected={index === at}>
              <Link to={place} tabIndex={-1} onClick={onClose}>
                {shown}
              </Link>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  )
}

function given(typed: Typed): SearchFilters {
  return Object.fromEntries(Object.entries(typed).filter(([, value]) => value.trim() !== ''))
}

function useTitles(ids: readonly string[]): Map<string, string | null> {
  const unique = [...new Set(ids)]
  const found = useQueries({
    queries: unique.map((id) => ({
      queryKey: keys.conversation(id),
      queryFn: () => server.conversation(id),
      staleTime: 60_000,
    })),
  })
  return new Map(unique.map((id, index) => [id, found[index]?.data?.title ?? null]))
}
