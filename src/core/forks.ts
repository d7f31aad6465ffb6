import type { Conversation } from '../protocol/api/conversations.ts'
import type { Restored } from '../protocol/api/work.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { Idempotency, Place } from './ledger.ts'

/** Forks, with the files as they are wanted. */
export interface Forks {
  fork(request: ForkRequest): Promise<Forked>
}

export interface ForkRequest {
  tenant: string
  conversationId: ConversationId
  by: string
  /** Null: after the last event. */
  at: Place | null
  title?: string | undefined
  /** Leave them alone; put them back to the place first; or give the fork a working copy of its own. */
  files: 'keep' | 'restore' | 'copy'
  idempotency?: Idempotency | undefined
}

export interface Forked {
  conversation: Conversation
  repeated: boolean
  /** What putting the files back did; null when nothing was to be done. */
  restored: Restored | null
}
