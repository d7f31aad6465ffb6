import type { ConversationId } from '../protocol/ids.ts'
import type { Attachment } from './queue.ts'

/** Texts that people send along with messages (C9). */
export interface AttachmentStore {
  /** Keeps a text, durably, and names it. */
  keep(text: string): Promise<string>
  read(sha256: string): Promise<string>
  /** Those on the conversation's line, inherited ones too. */
  onLine(tenant: string, conversationId: ConversationId): Promise<Attachment[]>
}

/** A text that is larger goes to the model in pieces, those that fit the question. */
export const WHOLE_BYTES = 20 * 1024

/** Where its pieces are indexed. */
export function attachmentScope(sha256: string): string {
  return `attachment:${sha256}`
}

export function attachmentItem({ name, bytes }: Attachment, text: string | null): object {
  const quoted = JSON.stringify(name)
  return text === null
    ? {
        role: 'user',
        content: `<attachment name=${quoted} bytes="${bytes}">Too large to show whole: the pieces that fit a question come with it.</attachment>`,
      }
    : { role: 'user', content: `<attachment name=${quoted}>\n${text}\n</attachment>` }
}
