import type { QueueView } from '../../src/protocol/api/runs.ts'
import { server } from '../server.ts'
import { readSent } from './attachments.ts'
import { type Draft, emptyDraft } from './draft.ts'
import { takeBack } from './drafts.ts'

/** Turns a queued message back into a draft, with its attachments. */
export async function draftOf(
  conversationId: string,
  { content, active_files, attachments }: QueueView['items'][number],
): Promise<Draft> {
  return {
    ...emptyDraft(),
    content,
    files: active_files,
    attached: await readSent(conversationId, attachments),
  }
}

/** Drafts of all queued messages by id. Read them before clearing the queue, so that no attachments are lost. */
export async function waitingDrafts(conversationId: string): Promise<Map<string, Draft>> {
  const { items } = await server.queue(conversationId)
  const drafts = await Promise.all(
    items.map(async (item) => [item.message_id, await draftOf(conversationId, item)] as const),
  )
  return new Map(drafts)
}

/** Puts the messages back into the composer in queue order. */
export function takeAllBack(
  conversationId: string,
  cleared: readonly { message_id: string; content: string }[],
  drafts: ReadonlyMap<string, Draft>,
): void {
  for (const { message_id, content } of cleared.toReversed()) {
    takeBack(conversationId, drafts.get(message_id) ?? { ...emptyDraft(), content })
  }
}
