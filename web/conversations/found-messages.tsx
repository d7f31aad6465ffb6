import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '../location.tsx'
import { FoundEvent } from '../search/found-event.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'

const SHOWN = 20

/** Messages, calls and edits that have the words, each with an excerpt; a link opens the transcript there. */
export function FoundMessages({ q, onChosen }: { q: string; onChosen(): void }) {
  const found = useQuery({
    queryKey: [...keys.conversations, 'messages', q],
    queryFn: () => server.search({ q, limit: SHOWN }),
    placeholderData: keepPreviousData,
  })
  if (found.isError) return <p className="failure">{explain(found.error)}</p>
  const items = found.data?.items ?? []
  if (items.length === 0) return null
  return (
    <>
      <h2>{text.conversations.messages}</h2>
      <ul>
        {items.map((found) => (
          <li key={`${found.conversation_id} ${found.event_number}`}>
            <Link to={{ conversationId: found.conversation_id, at: found.event_number }} onClick={onChosen}>
              <FoundEvent found={found} />
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}
