import type { DeletedConversation, DeletedMessage, Undeleted } from '../protocol/api/lines.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { Undoing } from './operations.ts'

/** Deletes and restores messages and conversations; stops runs first (D2). Refusals throw a WaymarkError. */
export interface Deletions {
  deleteMessage(command: DeletionCommand & { messageId: string }): Promise<DeletedMessage>
  undeleteMessage(command: DeletionCommand & { messageId: string }): Promise<Undeleted>
  deleteConversation(command: DeletionCommand): Promise<DeletedConversation>
  undeleteConversation(command: DeletionCommand): Promise<Undeleted>
}

export interface DeletionCommand {
  tenant: string
  conversationId: ConversationId
  by: string
  undoing?: Undoing | undefined
}
