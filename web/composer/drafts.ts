import { newId } from '../../src/protocol/ids.ts'

/** A message that was not sent yet. */
export interface Draft {
  content: string
  /** Files named with @, which the model sees whole. */
  files: readonly string[]
  /** It is accepted once, however often it is sent. */
  key: string
}

const nameOf = (conversationId: string) => `waymark.draft.${conversationId}`

export function emptyDraft(): Draft {
  return { content: '', files: [], key: newId('msg') }
}

export function keptDraft(conversationId: string): Draft {
  const stored = localStorage.getItem(nameOf(conversationId))
  return stored === null ? emptyDraft() : (JSON.parse(stored) as Draft)
}

export function keepDraft(conversationId: string, draft: Draft): void {
  const isEmpty = draft.content === '' && draft.files.length === 0
  if (isEmpty) localStorage.removeItem(nameOf(conversationId))
  else localStorage.setItem(nameOf(conversationId), JSON.stringify(draft))
}
