import type { Clock } from '../core/clock.ts'
import { timestamp } from '../core/clock.ts'
import type { Deletions } from '../core/deletions.ts'
import type { Deletion, Ledger } from '../core/ledger.ts'
import type { Queue, WaitingMessage } from '../core/queue.ts'
import type { DeletedMessage } from '../protocol/api/lines.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'

/** How long a stopped run may take to end; after that the deletion abandons it. */
const STOP_MS = 10_000

export interface DeletionsDependencies {
  ledger: Ledger
  queue: Queue
  clock: Clock
  /** How long a deletion can be undone. */
  retentionMs: number
  stopMs?: number
}

interface Who {
  tenant: string
  conversationId: ConversationId
  by: string
}

export function createDeletions(deps: DeletionsDependencies): Deletions {
  const { ledger, queue, clock, retentionMs, stopMs = STOP_MS } = deps
  const until = (at: number) => timestamp(at + retentionMs)

  /** Stops the active run, as a person's Stop would; removes and returns the messages that wait after it (D2). */
  async function stopAll(who: Who): Promise<WaitingMessage[]> {
    const deadline = performance.now() + stopMs
    const cleared: WaitingMessage[] = []
    while (performance.now() < deadline) {
      const { runId, waiting } = await queue.stopAll(who)
      cleared.push(...waiting)
      // Another message may have arrived in the meantime: stop that too.
      if (runId === null) break
      await untilEnded(who, deadline - performance.now())
    }
    return cleared
  }

  /** Resolves when no run is active in the conversation, or on timeout. */
  function untilEnded({ tenant, conversationId }: Who, milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(end, milliseconds)
      const unlisten = queue.onChange((changed) => {
        if (changed === null || changed === conversationId) look()
      })
      function end(): void {
        clearTimeout(timer)
        unlisten()
        resolve()
      }
      function look(): void {
        queue.read(tenant, conversationId).then(({ active }) => active === null && end(), end)
      }
      look()
    })
  }

  function answer(
    conversationId: string,
    { messageId, cutAfter, checkpointId, at }: Deletion,
    cleared: WaitingMessage[],
  ): DeletedMessage {
    return {
      conversation_id: conversationId,
      deleted_message_id: messageId,
      cut_after: cutAfter,
      checkpoint_id: checkpointId,
      undo_until: until(at),
      cleared: cleared.map(asCleared),
    }
  }

  return {
    async deleteMessage(command) {
      const { tenant, conversationId, messageId, by, undoing } = command
      const earlier = await ledger.findDeletion(tenant, conversationId, messageId)
      if (earlier) return answer(conversationId, earlier, [])
      const cleared = await stopAll(command)
      const place = { at: { before: messageId }, newSegmentId: newId('seg', clock.now()) }
      try {
        const cut = await ledger.deleteMessages({ tenant, conversationId, ...place, by, undoing })
        return answer(conversationId, cut, cleared)
      } catch (error) {
        // Another process may have deleted it first.
        if (!(error instanceof WaymarkError) || error.code !== 'message_not_found') throw error
        const theirs = await ledger.findDeletion(tenant, conversationId, messageId)
        if (!theirs) throw error
        return answer(conversationId, theirs, cleared)
      }
    },
    async undeleteMessage(command) {
      const { tenant, conversationId, messageId } = command
      // Check first: don't stop runs for an undo that is not possible.
      await ledger.assertCanUndelete(tenant, conversationId, messageId)
      const cleared = await stopAll(command)
      const { headEventNumber, leftMessageId, at } = await ledger.undeleteMessages(command)
      return {
        conversation_id: conversationId,
        undeleted_message_id: messageId,
        head_event_number: headEventNumber,
        left_message_id: leftMessageId,
        undo_until: leftMessageId === null ? null : until(at),
        cleared: cleared.map(asCleared),
      }
    },
    async deleteConversation(command) {
      const { tenant, conversationId, by, undoing } = command
      const cleared = await stopAll(command)
      const at = clock.now()
      await ledger.remove(tenant, conversationId, by, undoing)
      return { conversation_id: conversationId, undo_until: until(at), cleared: cleared.map(asCleared) }
    },
    async undeleteConversation({ tenant, conversationId, by, undoing }) {
      await ledger.undoRemove(tenant, conversationId, by, undoing)
      const { head_event_number } = await ledger.conversation(tenant, conversationId)
      return {
        conversation_id: conversationId,
        undeleted_message_id: null,
        head_event_number,
        left_message_id: null,
        undo_until: null,
        cleared: [],
      }
    },
  }
}

function asCleared({ messageId: message_id, content }: WaitingMessage): DeletedMessage['cleared'][number] {
  return { message_id, content }
}
