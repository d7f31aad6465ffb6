import { useQuery } from '@tanstack/react-query'
import type { OperationView } from '../../src/protocol/api/operations.ts'
import { shortened } from '../../src/protocol/title.ts'
import { takeAllBack, waitingDrafts } from '../composer/queued.ts'
import { Button } from '../controls/button.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { dateOf } from '../format.ts'
import { useMay } from '../scopes.ts'
import { keys, queries, refresh, server } from '../server.ts'
import { text } from '../text.ts'

const SHOWN = 8
const LOOK_AGAIN_MS = 5000

/** What people have changed in this conversation; each can be undone and done again. */
export function Operations({ conversationId }: { conversationId: string }) {
  const mayChange = useMay('workspace:write')
  const { attempt, show } = useToasts()
  const key = [...keys.work(conversationId), 'operations']
  const list = useQuery({
    queryKey: key,
    queryFn: () => server.operations({ conversation_id: conversationId, limit: SHOWN }),
    refetchInterval: LOOK_AGAIN_MS,
  })
  const items = list.data?.items ?? []
  if (items.length === 0) return null
  function move({ operation, is_undone, summary }: OperationView): void {
    void attempt(async () => {
      const drafts = await waitingDrafts(conversationId)
      const { cleared, skipped } = await (is_undone ? server.redo({ operation }) : server.undo({ operation }))
      takeAllBack(conversationId, cleared, drafts)
      show({
        message: text.operations.done(is_undone, summary),
        details: [
          ...cleared.map(({ content }) => text.deletion.cleared(shortened(content, 80))),
          ...skipped.map(({ path, reason }) => text.operations.skipped(path, reason)),
        ],
        conversationId,
      })
    }).finally(() => {
      void queries.invalidateQueries({ queryKey: key })
      refresh(conversationId)
    })
  }
  return (
    <>
      <h2>{text.operations.title}</h2>
      <ul className="checkpoints">
        {items.map((one) => (
          <li key={one.operation}>
            <div>
              <strong className={one.is_undone ? 'undone' : ''}>{one.summary}</strong>
              <p className="quiet">
                {dateOf(one.at)} · {one.by}
                {one.problem !== null && ` · ${text.operations.problem(one.is_undone, one.problem)}`}
              </p>
            </div>
            <Button icon="restore" disabled={!mayChange || one.problem !== null} onClick={() => move(one)}>
              {one.is_undone ? text.operations.redo : text.operations.undo}
            </Button>
          </li>
        ))}
      </ul>
    </>
  )
}
