import type { OperationList, Undone } from '../protocol/api/operations.ts'
import type { ConversationId } from '../protocol/ids.ts'

/** Undoes and redoes what people have changed. Refusals throw a WaymarkError. */
export interface UndoRedo {
  undo(command: UndoCommand): Promise<Undone>
  redo(command: UndoCommand): Promise<Undone>
  list(query: {
    tenant: string
    conversationId: ConversationId | null
    before: number | null
    limit: number
  }): Promise<OperationList>
}

export interface UndoCommand {
  tenant: string
  by: string
  /** Null for the operations of all conversations. */
  conversationId: ConversationId | null
  /** Null for the last one. */
  no: number | null
  mayChangeFiles: boolean
}
