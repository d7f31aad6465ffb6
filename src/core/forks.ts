import type { Conversation } from '../protocol/api/conversations.ts'
import type { Restored } from '../protocol/api/work.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { Idempotency, Place } from './ledger.ts'

/** Forks conversations and prepares their files. */
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
  /** Keep the files as they are, restore them to the place first, or give the fork its own working copy. */
  files: 'keep' | 'restore' | 'copy'
  idempotency?: Idempotency | undefined
}

export interface Forked {
  conversation: Conversation
  repeated: boolean
  /** The result of restoring the files; null when nothing was restored. */
  restored: Restored | null
}
