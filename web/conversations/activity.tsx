import type { Conversation } from '../../src/protocol/api/conversations.ts'
import { text } from '../text.ts'

/** Says whether a conversation runs, waits for approval or has queued messages. */
export function Activity({
  conversation: { is_running, is_asking, queued },
}: {
  conversation: Conversation
}) {
  return (
    <>
      {is_asking ? (
        <span className="asking">{text.conversations.asking}</span>
      ) : (
        is_running && <span className="running">{text.conversations.running}</span>
      )}
      {queued > 0 && <span className="queued">{text.conversations.queued(queued)}</span>}
    </>
  )
}
