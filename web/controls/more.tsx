import { text } from '../text.ts'
import { Button } from './button.tsx'

interface Pages {
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage(): Promise<unknown>
}

/** Loads the next page of a list. */
export function More({ list }: { list: Pages }) {
  if (!list.hasNextPage) return null
  return (
    <Button look="quiet" disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
      {text.conversations.more}
    </Button>
  )
}
