import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useState } from 'react'
import { Icon } from '../controls/icon.tsx'
import { emptyConversation } from '../conversations/start-conversation.ts'
import { keys, server } from '../server.ts'
import { text } from '../text.ts'
import { NEW } from './drafts.ts'

const SHOWN = 8

export interface Choices {
  paths: readonly string[]
  /** No file matches. */
  isNone: boolean
  active: number
  setActive(index: number): void
  activeId(listId: string): string | undefined
  /** Returns true if the list handled the key. */
  handle(event: KeyboardEvent, choose: (path: string) => void): boolean
}

/** Files that match the text after an @. `typed` is null when there is no @. */
export function useFileChoices(conversationId: string, typed: string | null): Choices {
  const [marked, setMarked] = useState({ typed, index: 0 })
  const [dismissed, setDismissed] = useState<string | null>(null)
  // The dismissal ends with the mention.
  if (dismissed !== null && typed === null) setDismissed(null)
  const found = useQuery({
    queryKey: [...keys.files(conversationId), 'named', typed],
    queryFn: async () => {
      const id = conversationId === NEW ? await emptyConversation() : conversationId
      return await server.files(id, { q: typed ?? '', limit: SHOWN })
    },
    enabled: typed !== null,
    placeholderData: keepPreviousData,
  })
  // New input resets the selection to the first entry.
  const active = marked.typed === typed ? marked.index : 0
  const setActive = (index: number) => setMarked({ typed, index })
  const items = found.data?.items ?? []
  // Until the new results arrive, filter the old ones by the new input.
  const fitting = found.isPlaceholderData
    ? items.filter((path) => path.toLowerCase().includes(typed?.toLowerCase() ?? ''))
    : items
  const paths = typed === null || typed === dismissed ? [] : fitting

  function handle(event: KeyboardEvent, choose: (path: string) => void): boolean {
    if (paths.length === 0 || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return false
    const chosen = paths[active]
    if (event.key === 'ArrowDown') setActive((active + 1) % paths.length)
    else if (event.key === 'ArrowUp') setActive((active + paths.length - 1) % paths.length)
    else if (event.key === 'Escape') setDismissed(typed)
    else if ((event.key === 'Enter' || event.key === 'Tab') && chosen !== undefined) choose(chosen)
    else return false
    event.preventDefault()
    return true
  }

  return {
    paths,
    isNone:
      typed !== null && typed !== '' && found.isSuccess && !found.isPlaceholderData && items.length === 0,
    active,
    setActive,
    activeId: (listId) => (paths.length > 0 ? `${listId}-${active}` : undefined),
    handle,
  }
}

export function FileChoices({
  id,
  choices,
  onChoose,
}: {
  id: string
  choices: Choices
  onChoose(path: string): void
}) {
  const { paths, isNone, active, setActive } = choices
  if (isNone) return <p className="file-choices quiet">{text.composer.noFile}</p>
  if (paths.length === 0) return null
  return (
    <ul id={id} className="file-choices" role="listbox" aria-label={text.composer.files}>
      {paths.map((path, index) => (
        <li
          key={path}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === active}
          onPointerEnter={() => setActive(index)}
          onPointerDown={(event) => {
            event.preventDefault()
            onChoose(path)
          }}
        >
          <Icon name="file" />
          {path}
        </li>
      ))}
    </ul>
  )
}
