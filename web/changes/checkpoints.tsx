import { useInfiniteQuery } from '@tanstack/react-query'
import { Button } from '../controls/button.tsx'
import { More } from '../controls/more.tsx'
import { dateOf } from '../format.ts'
import { useMay } from '../scopes.ts'
import { keys, server } from '../server.ts'
import { text } from '../text.ts'

/** All checkpoints that can be restored. */
export function Checkpoints({
  conversationId,
  onRestore,
}: {
  conversationId: string
  onRestore(checkpointId: string): void
}) {
  const mayChange = useMay('workspace:write')
  const list = useInfiniteQuery({
    queryKey: [...keys.work(conversationId), 'checkpoints'],
    queryFn: ({ pageParam }) =>
      server.checkpoints(conversationId, { limit: 20, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  })
  return (
    <>
      <h2>{text.changes.allCheckpoints}</h2>
      <ul className="checkpoints">
        {(list.data?.pages.flatMap((page) => page.items) ?? []).map((checkpoint) => (
          <li key={checkpoint.checkpoint_id} title={checkpoint.checkpoint_id}>
            <div>
              <strong>{text.changes.checkpoint(checkpoint.label)}</strong>
              <p className="quiet">
                {dateOf(checkpoint.created_at)} · {checkpoint.work_session} ·{' '}
                {text.changes.files(checkpoint.files, checkpoint.changed)}
              </p>
            </div>
            <Button icon="restore" disabled={!mayChange} onClick={() => onRestore(checkpoint.checkpoint_id)}>
              {text.restore.open}
            </Button>
          </li>
        ))}
      </ul>
      <More list={list} />
    </>
  )
}
