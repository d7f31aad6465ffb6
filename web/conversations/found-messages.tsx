import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { dateOf, whenOf } from '../format.ts'
import { Link } from '../location.tsx'
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
        {items.map(
          ({ conversation_id, event_number, kind, tool, path, created_at, excerpt, match: [from, to] }) => (
            <li key={`${conversation_id} ${event_number}`}>
              <Link to={{ conversationId: conversation_id, at: event_number }} onClick={onChosen}>
                <span className="excerpt">
                  {excerpt.slice(0, from)}
                  <mark>{excerpt.slice(from, to)}</mark>
                  {excerpt.slice(to)}
                </span>
                <span className="when">
                  {text.search.kinds[kind](tool ?? path ?? '')}
                  <time dateTime={created_at} title={dateOf(created_at)}>
                    {whenOf(created_at)}
                  </time>
                </span>
              </Link>
            </li>
          ),
        )}
      </ul>
    </>
  )
}
