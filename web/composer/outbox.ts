import { type Draft, dropDraft, returnDrafts, takeDraft } from './drafts.ts'

/** Messages on their way, in the order in which they were sent: one is posted when the one before it was accepted. */
const outboxes = new Map<string, Draft[]>()

/** Throws when one was not accepted; it and all behind it are back in the field then. */
export async function sendDraft(
  conversationId: string,
  post: (draft: Draft) => Promise<unknown>,
): Promise<void> {
  const box = outboxes.get(conversationId) ?? []
  outboxes.set(conversationId, box)
  box.push(takeDraft(conversationId))
  // Whoever is at it goes on with this one.
  if (box.length > 1) return
  for (let [next] = box; next; [next] = box) {
    try {
      await post(next)
    } catch (error) {
      returnDrafts(conversationId, box.splice(0))
      throw error
    }
    box.shift()
    if (box.length === 0) dropDraft(conversationId, next)
  }
}
