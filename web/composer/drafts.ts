import { useSyncExternalStore } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import type { Attached } from './attachments.ts'

/** A message as it is written. */
export interface Draft {
  content: string
  /** Files named with @, which the model sees whole. */
  files: readonly string[]
  /** Texts that go along. They are kept while the page is open, and not through a reload. */
  attached: readonly Attached[]
  /** Sent again unchanged, it is accepted once; whatever changes it makes it another message. */
  key: string
}

/** What a person has written in a conversation and nobody has accepted yet. */
export interface Unsaid {
  draft: Draft
  /** Sent, and not known to be accepted: the first was sent first. */
  unsent: readonly Draft[]
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
  const found = known.get(conversationId) ?? stored(conversationId)
  known.set(conversationId, found)
  return found
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

/** Nobody knows whether it was accepted: unchanged it can be sent again without harm, so nothing is mixed with it. */
export function hold(conversationId: string, sent: Draft): void {
  const { draft, unsent } = unsaidOf(conversationId)
  if (isEmpty(draft) && unsent.length === 1) put(conversationId, sent, [])
}

function without(drafts: readonly Draft[], key: string): Draft[] {
  return drafts.filter((draft) => draft.key !== key)
}

function put(conversationId: string, draft: Draft, unsent: readonly Draft[]): void {
  const isKept = keep(conversationId, draft, unsent)
  set(conversationId, { ...unsaidOf(conversationId), draft, unsent, isKept })
}

export function setSending(conversationId: string, isSending: boolean): void {
  set(conversationId, { ...unsaidOf(conversationId), isSending })
}

function set(conversationId: string, unsaid: Unsaid): void {
  known.set(conversationId, unsaid)
  for (const listener of listeners) listener()
}

function emptyDraft(): Draft {
  return { content: '', files: [], attached: [], key: newId('msg') }
}

function isEmpty({ content, files, attached }: Draft): boolean {
  return content === '' && files.length === 0 && attached.length === 0
}

const nameOf = (conversationId: string) => `waymark.draft.${conversationId}`

interface Stored {
  draft: Omit<Draft, 'attached'>
  unsent: Omit<Draft, 'attached'>[]
}

/** This tab's own; in a tab that has none yet, what another that was closed may have left. */
function stored(conversationId: string): Unsaid {
  for (const storage of [sessionStorage, localStorage]) {
    try {
      const text = storage.getItem(nameOf(conversationId))
      if (text === null) continue
      const { draft, unsent } = JSON.parse(text) as Stored
      const all = [...unsent, ...(draft.content === '' ? [] : [draft])].map(asDraft)
      const last = all.at(-1)
      // A single one goes back into the field; unchanged it is still the same message.
      if (last && (all.length === 1 || draft.content !== '')) {
        return { draft: last, unsent: all.slice(0, -1), isSending: false, isKept: true }
      }
      return { draft: emptyDraft(), unsent: all, isSending: false, isKept: true }
    } catch {
      // What can't be read any more is as good as nothing.
    }
  }
  return { draft: emptyDraft(), unsent: [], isSending: false, isKept: true }
}

function asDraft({ content, files, key }: Omit<Draft, 'attached'>): Draft {
  if (typeof content !== 'string' || typeof key !== 'string') throw new Error('this is no draft')
  return { content, files: Array.isArray(files) ? files : [], attached: [], key }
}

/** False when there is no room for it; then nothing older stays in its place. */
function keep(conversationId: string, draft: Draft, unsent: readonly Draft[]): boolean {
  const name = nameOf(conversationId)
  const plain = ({ content, files, key }: Draft) => ({ content, files, key })
  const text = JSON.stringify({ draft: plain(draft), unsent: unsent.map(plain) } satisfies Stored)
  const isNothing = draft.content === '' && draft.files.length === 0 && unsent.length === 0
  try {
    // Also when it is nothing: this tab has had its say, and takes nothing over from others.
    sessionStorage.setItem(name, text)
    if (!isNothing) localStorage.setItem(name, text)
    else if (isOurs(conversationId)) localStorage.removeItem(name)
    return true
  } catch {
    sessionStorage.removeItem(name)
    if (isOurs(conversationId)) localStorage.removeItem(name)
    return false
  }
}

/** Another tab's words are not ours to remove. */
function isOurs(conversationId: string): boolean {
  const before = known.get(conversationId)
  const keys = new Set(before ? [before.draft.key, ...before.unsent.map((draft) => draft.key)] : [])
  try {
    const text = localStorage.getItem(nameOf(conversationId))
    if (text === null) return false
    const { draft, unsent } = JSON.parse(text) as Stored
    return [draft, ...unsent].some((one) => keys.has(one.key))
  } catch {
    return true
  }
}
