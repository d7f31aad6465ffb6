import { useSyncExternalStore } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import type { Attached } from './attachments.ts'

/** A message that was not sent yet. */
export interface Draft {
  content: string
  /** Files named with @, which the model sees whole. */
  files: readonly string[]
  /** Texts that go along. They are kept while the page is open, and not through a reload. */
  attached: readonly Attached[]
  /** Sent again unchanged, it is accepted once; whatever changes it makes it another message. */
  key: string
  /** Whether it would survive a reload. */
  isKept: boolean
}

/** Of every conversation, so that looking elsewhere loses nothing. */
const drafts = new Map<string, Draft>()
const listeners = new Set<() => void>()

const nameOf = (conversationId: string) => `waymark.draft.${conversationId}`

export function useDraft(conversationId: string): Draft {
  return useSyncExternalStore(
    (onChange) => {
      listeners.add(onChange)
      return () => listeners.delete(onChange)
    },
    () => draftOf(conversationId),
  )
}

export function draftOf(conversationId: string): Draft {
  const known = drafts.get(conversationId)
  if (known) return known
  const draft = { ...emptyDraft(), ...storedDraft(conversationId) }
  drafts.set(conversationId, draft)
  return draft
}

export function changeDraft(
  conversationId: string,
  change: (before: Draft) => Partial<Pick<Draft, 'content' | 'files' | 'attached'>>,
): void {
  const before = draftOf(conversationId)
  put(conversationId, { ...before, ...change(before), key: newId('msg') })
}

/** Takes the message out to send it; what is written meanwhile is another. */
export function takeDraft(conversationId: string): Draft {
  const taken = draftOf(conversationId)
  drafts.set(conversationId, emptyDraft())
  tell()
  return taken
}

/** It was accepted: nothing of it need be kept. */
export function dropDraft(conversationId: string, sent: Draft): void {
  const now = draftOf(conversationId)
  if (now.content !== '' || now.files.length > 0) keep(conversationId, now)
  else forget(conversationId, sent.key)
}

/** They were not: they come back, in their order and before what was written meanwhile. */
export function returnDrafts(conversationId: string, sent: readonly Draft[]): void {
  const now = draftOf(conversationId)
  const isNew = now.content !== '' || now.files.length > 0 || now.attached.length > 0
  const all = isNew ? [...sent, now] : sent
  const [only] = all
  if (only && all.length === 1) return put(conversationId, only)
  put(conversationId, {
    content: all.map((draft) => draft.content).join('\n\n'),
    files: [...new Set(all.flatMap((draft) => draft.files))],
    attached: all.flatMap((draft) => draft.attached),
    key: newId('msg'),
    isKept: true,
  })
}

function put(conversationId: string, draft: Draft): void {
  const isEmpty = draft.content === '' && draft.files.length === 0
  if (isEmpty) forget(conversationId, drafts.get(conversationId)?.key ?? '')
  drafts.set(conversationId, { ...draft, isKept: isEmpty || keep(conversationId, draft) })
  tell()
}

function tell(): void {
  for (const listener of listeners) listener()
}

function emptyDraft(): Draft {
  return { content: '', files: [], attached: [], key: newId('msg'), isKept: true }
}

/** This tab's own, or what another that was closed has left. */
function storedDraft(conversationId: string): Partial<Draft> {
  for (const storage of [sessionStorage, localStorage]) {
    try {
      const stored = JSON.parse(storage.getItem(nameOf(conversationId)) ?? 'null') as Partial<Draft> | null
      if (stored && typeof stored.content === 'string' && Array.isArray(stored.files)) {
        return { content: stored.content, files: stored.files, key: stored.key ?? newId('msg') }
      }
    } catch {
      // What can't be read any more is as good as nothing.
    }
  }
  return {}
}

/** False when there is no room for it. */
function keep(conversationId: string, { content, files, key }: Draft): boolean {
  try {
    const text = JSON.stringify({ content, files, key })
    sessionStorage.setItem(nameOf(conversationId), text)
    localStorage.setItem(nameOf(conversationId), text)
    return true
  } catch {
    return false
  }
}

/** Another tab's message is not ours to remove. */
function forget(conversationId: string, key: string): void {
  try {
    sessionStorage.removeItem(nameOf(conversationId))
    const stored = localStorage.getItem(nameOf(conversationId))
    const owner = stored === null ? null : (JSON.parse(stored) as Partial<Draft>).key
    if (owner === key) localStorage.removeItem(nameOf(conversationId))
  } catch {
    localStorage.removeItem(nameOf(conversationId))
  }
}
