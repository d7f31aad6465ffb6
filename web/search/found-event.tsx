import type { SearchResults } from '../../src/protocol/api/conversations.ts'
import { dateOf, whenOf } from '../format.ts'
import { text } from '../text.ts'

export type Found = SearchResults['items'][number]

/** An event that has the words: its excerpt, its kind and its time. */
export function FoundEvent({ found, title }: { found: Found; title?: string }) {
  const { kind, tool, path, created_at, excerpt, match } = found
  const [from, to] = match
  return (
    <>
      <span className="excerpt">
        {excerpt.slice(0, from)}
        <mark>{excerpt.slice(from, to)}</mark>
        {excerpt.slice(to)}
      </span>
      <span className="when">
        {title !== undefined && <span className="found-title">{title}</span>}
        {text.search.kinds[kind](tool ?? path ?? '')}
        <time dateTime={created_at} title={dateOf(created_at)}>
          {whenOf(created_at)}
        </time>
      </span>
    </>
  )
}
