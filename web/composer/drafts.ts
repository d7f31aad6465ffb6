import { useSyncExternalStore } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { type Draft, type Drafts, emptyDraft, isEmpty } from './draft.ts'
import { keep, stored } from './kept-drafts.ts'

/** Text that a person has written, mostly in a conversation, and that the server has not accepted yet. */
export interface Unsaid extends Drafts {
  /** They are on their way. */
  isSending: boolean
  /** Whether it would survive a reload. */
  isKept: boolean
}

type Written = Partial<Pick<Draft, 'content' | 'files' | 'attached'>>

/** Of every conversation, so that looking elsewhere loses nothing. */
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

/** What was kept: a single message goes back into the field; unchanged it is still the same one. */
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

/** Takes what is in the field out to be sent; what is written meanwhile is another message. */
export function takeDraft(conversationId: string): void {
  const { draft, unsent } = unsaidOf(conversationId)
  if (draft.content.trim() !== '') put(conversationId, emptyDraft(), [...unsent, draft])
}

/** Queue it after messages that are being sent, without touching the composer's text. */
export function addUnsent(conversationId: string, also: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  // It may be in the field, where its answer was lost.
  put(conversationId, draft.key === also.key ? emptyDraft() : draft, [...without(unsent, also.key), also])
}

/** It was accepted: nothing of it need be kept. */
export function settle(conversationId: string, { key }: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  put(conversationId, draft, without(unsent, key))
}

/** It was not accepted, or a person wants to change it: back into the field, before what was written meanwhile. */
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

/** It may or may not have been accepted. Unchanged it can safely be sent again, so nothing is added to it. */
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
