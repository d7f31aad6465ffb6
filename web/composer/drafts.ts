import { useSyncExternalStore } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { type Draft, type Drafts, emptyDraft, isEmpty } from './draft.ts'
import { keep, stored } from './kept-drafts.ts'

/** Text that the server has not accepted yet, usually of one conversation. */
export interface Unsaid extends Drafts {
  /** True while messages are being sent. */
  isSending: boolean
  /** True if the drafts would survive a reload. */
  isKept: boolean
}

type Written = Partial<Pick<Draft, 'content' | 'files' | 'attached'>>

/** Stands for the conversation of a draft that has none yet: it is created when the draft is sent. */
export const NEW = 'new'

/** By conversation, so that switching views loses nothing. */
const known = new Map<string, Unsaid>()
const listeners = new Set<() => void>()

export function useUnsaid(conversationId: string): Unsaid {
  return useSyncExternalStore(
    (onChange) => {
      listeners.add(onChange)
      return () => listeners.delete(onChange)
    },
    () => unsaidOf(conversationId),
  )
}

export function unsaidOf(conversationId: string): Unsaid {
  const found = known.get(conversationId) ?? begun(conversationId)
  known.set(conversationId, found)
  return found
}

/** Loads the stored drafts. A single unconfirmed message returns to the composer and keeps its key. */
function begun(conversationId: string): Unsaid {
  const { draft, unsent, lost } = stored(conversationId) ?? { draft: emptyDraft(), unsent: [], lost: [] }
  const isSingle = isEmpty(draft) && unsent.length === 1
  const drafts = isSingle ? { draft: unsent[0] ?? draft, unsent: [] } : { draft, unsent }
  return { ...drafts, lost, isSending: false, isKept: true }
}

export function changeDraft(conversationId: string, change: (before: Draft) => Written): void {
  const { draft, unsent } = unsaidOf(conversationId)
  put(conversationId, { ...draft, ...change(draft), key: newId('msg') }, unsent)
}

/** Moves the composer's text to the unsent messages; text typed from then on is a new message. */
export function takeDraft(conversationId: string): void {
  const { draft, unsent } = unsaidOf(conversationId)
  if (draft.content.trim() !== '') put(conversationId, emptyDraft(), [...unsent, draft])
}

/** Adds a message after those being sent, without changing the composer's text. */
export function addUnsent(conversationId: string, also: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  // The composer may hold the same message, if the response to it was lost.
  put(conversationId, draft.key === also.key ? emptyDraft() : draft, [...without(unsent, also.key), also])
}

/** Removes an accepted message. */
export function settle(conversationId: string, { key }: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  put(conversationId, draft, without(unsent, key))
}

/** Puts a message back into the composer, before the text there: it was rejected, or the user wants to edit it. */
export function takeBack(conversationId: string, sent: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  const rest = without(unsent, sent.key)
  if (isEmpty(draft)) return put(conversationId, sent, rest)
  const merged = {
    content: `${sent.content}\n\n${draft.content}`,
    files: [...new Set([...sent.files, ...draft.files])],
    attached: [...sent.attached, ...draft.attached],
    key: newId('msg'),
  }
  put(conversationId, merged, rest)
}

/** Keeps a message whose acceptance is unknown. It stays unchanged, so that resending it is safe. */
export function hold(conversationId: string, sent: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  if (isEmpty(draft) && unsent.length === 1) put(conversationId, sent, [])
}

function without(drafts: readonly Draft[], key: string): Draft[] {
  return drafts.filter((draft) => draft.key !== key)
}

function put(conversationId: string, draft: Draft, unsent: readonly Draft[]): void {
  const before = unsaidOf(conversationId)
  const drafts = { draft, unsent, lost: isEmpty(draft) ? [] : before.lost }
  const isKept = keep(conversationId, before, drafts)
  set(conversationId, { ...before, ...drafts, isKept })
}

export function setSending(conversationId: string, isSending: boolean): void {
  set(conversationId, { ...unsaidOf(conversationId), isSending })
}

function set(conversationId: string, unsaid: Unsaid): void {
  known.set(conversationId, unsaid)
  for (const listener of listeners) listener()
}
