import { RequestError } from '../../src/client/index.ts'
import { server } from '../server.ts'
import { asSent } from './attachments.ts'
import { type Draft, renewed } from './draft.ts'
import { addUnsent, hold, setSending, settle, takeBack, takeDraft, unsaidOf } from './drafts.ts'

/**
 * Sends earlier messages whose acceptance is unknown, then the composer's text: in order, each with its own key, so that
 * none is accepted twice. Throws when a message is not accepted; that message and all after it are kept.
 */
export async function sendDraft(conversationId: string): Promise<void> {
  takeDraft(conversationId)
  await sendAll(conversationId)
}

/** Sends another message in the same way, without changing the composer's text. */
export async function sendAlso(conversationId: string, draft: Draft): Promise<void> {
  addUnsent(conversationId, draft)
  await sendAll(conversationId)
}

async function sendAll(conversationId: string): Promise<void> {
  // The send in progress picks this message up.
  if (unsaidOf(conversationId).isSending) return
  setSending(conversationId, true)
  try {
    for (let next = first(conversationId); next; next = first(conversationId))
      await send(conversationId, next)
  } finally {
    setSending(conversationId, false)
  }
}

function first(conversationId: string): Draft | undefined {
  return unsaidOf(conversationId).unsent[0]
}

async function send(conversationId: string, draft: Draft): Promise<void> {
  const { content, files, attached, key } = draft
  try {
    await server.sendMessage(
      conversationId,
      { content, ...(files.length > 0 ? { active_files: [...files] } : {}), ...asSent(attached) },
      { idempotencyKey: key },
    )
    settle(conversationId, draft)
  } catch (error) {
    const isOther = error instanceof RequestError && error.code === 'idempotency_key_reused'
    // The server accepted it earlier with attachments that this tab has lost since.
    if (isOther && attached.length === 0) return settle(conversationId, draft)
    const isRefused = error instanceof RequestError && !(error.mayPass && error.status >= 500)
    // Later messages must not overtake it.
    const isAlone = unsaidOf(conversationId).unsent.length === 1
    if (isRefused && isAlone) {
      settle(conversationId, draft)
      takeBack(conversationId, isOther ? renewed(draft) : draft)
    } else hold(conversationId, draft)
    throw error
  }
}
