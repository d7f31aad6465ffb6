import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'

/** Tells who listens that a conversation's queue has changed, here or in another process. */
export interface QueueNotices {
  /** Null means that any may have changed. */
  tell(conversationId: string | null): void
  listen(listener: (conversationId: string | null) => void): () => void
}

export function createQueueNotices(engine: Engine, writes: GroupedWrites): QueueNotices {
  const listeners = new Set<(conversationId: string | null) => void>()
  const tell = (conversationId: string | null) => {
    for (const listener of listeners) listener(conversationId)
  }
  writes.onChanged(({ queues }) => {
    for (const id of queues) tell(id)
  })
  engine.onForeignChange(({ what, conversationId }) => {
    if (what !== 'ledger') tell(conversationId)
  })
  return {
    tell,
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
