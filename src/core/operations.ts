import type { StoredSettings } from '../protocol/api/conversations.ts'
import type { OperationKind } from '../protocol/api/operations.ts'
import type { ConversationId } from '../protocol/ids.ts'

/** What people have changed, in order, so that it can be undone and redone. Noted in the transaction that makes the change. */
export interface Operation {
  no: number
  at: string
  by: string
  kind: OperationKind
  conversationId: ConversationId
  details: OperationDetails
  isUndone: boolean
}

/** What it takes to undo and redo an operation. */
export interface OperationDetails {
  message_id?: string
  /** The first message of the line that an undeletion has left. */
  left_message_id?: string | null
  /** For an undone operation: the first message of the line that the conversation left when it was undone. */
  redo_message_id?: string
  fork_id?: string
  before?: ChangedSettings
  after?: ChangedSettings
  /** The files before and after. */
  safety_checkpoint?: string
  new_checkpoint?: string | null
  /** The files that it has changed; without them, those that differ between the two checkpoints. */
  paths?: string[]
  /** The approved state before and after; null before the first approval. */
  approved_before?: string | null
  approved_commit?: string
}

export interface ChangedSettings {
  settings: StoredSettings
  /** Null for a conversation without a title of its own. */
  title?: string | null
}

/** Marks a change as the undoing or redoing of an operation, instead of an operation of its own. */
export interface Undoing {
  operation: number
  isUndone: boolean
}

export interface Operations {
  list(query: {
    tenant: string
    conversationId: ConversationId | null
    /** Only those before this one. */
    before: number | null
    limit: number
  }): Promise<{ items: Operation[]; next: number | null }>
  find(tenant: string, no: number): Promise<Operation | null>
  /** The operation that undo, or redo, is about; null if there is none. */
  next(
    tenant: string,
    conversationId: ConversationId | null,
    what: 'undo' | 'redo',
  ): Promise<Operation | null>
  /** Marks an operation as undone or redone where nothing is left to change. */
  mark(tenant: string, undoing: Undoing): Promise<void>
}
