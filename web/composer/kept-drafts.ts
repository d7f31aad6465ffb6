import type { Attached } from './attachments.ts'
import { type Draft, type Drafts, isEmpty } from './draft.ts'

/** As it is in the browser's storage. Texts that go along are in the tab's own, apart: they change seldom and may be large. */
interface Plain extends Omit<Draft, 'attached'> {
  attached?: string[]
}

interface Stored {
  draft: Plain
  unsent: Plain[]
}

const nameOf = (conversationId: string) => `waymark.draft.${conversationId}`
const attachedNameOf = (conversationId: string) => `waymark.attached.${conversationId}`

/** This tab's own; in a tab that has none yet, what another that was closed may have left. */
export function stored(conversationId: string): Drafts | null {
  for (const storage of [sessionStorage, localStorage]) {
    try {
      const text = storage.getItem(nameOf(conversationId))
      if (text === null) continue
      const { draft, unsent } = JSON.parse(text) as Stored
      const texts = attachedIn(conversationId)
      return { draft: asDraft(draft, texts), unsent: unsent.map((one) => asDraft(one, texts)) }
    } catch {
      // What can't be read any more is as good as nothing.
    }
  }
  return null
}

function attachedIn(conversationId: string): Attached[] {
  return JSON.parse(sessionStorage.getItem(attachedNameOf(conversationId)) ?? '[]') as Attached[]
}

function asDraft({ content, files, key, attached = [] }: Plain, texts: readonly Attached[]): Draft {
  if (typeof content !== 'string' || typeof key !== 'string') throw new Error('this is no draft')
  return {
    content,
    files: Array.isArray(files) ? files : [],
    attached: texts.filter(({ id }) => attached.includes(id)),
    key,
  }
}

/** False when there is no room for all of it; then nothing older stays in its place. */
export function keep(conversationId: string, before: Drafts, now: Drafts): boolean {
  const areTextsKept = keepAttached(conversationId, before, now)
  const name = nameOf(conversationId)
  const text = JSON.stringify({ draft: plain(now.draft), unsent: now.unsent.map(plain) } satisfies Stored)
  try {
    // Also when it is nothing: this tab has had its say, and takes nothing over from others.
    sessionStorage.setItem(name, text)
    if (!isEmpty(now.draft) || now.unsent.length > 0) localStorage.setItem(name, text)
    else if (isOurs(conversationId, before)) localStorage.removeItem(name)
    return areTextsKept
  } catch {
    sessionStorage.removeItem(name)
    if (isOurs(conversationId, before)) localStorage.removeItem(name)
    return false
  }
}

function plain({ content, files, key, attached }: Draft): Plain {
  return { content, files, key, attached: attached.map(({ id }) => id) }
}

function keepAttached(conversationId: string, before: Drafts, now: Drafts): boolean {
  const texts = attachedOf(now)
  const name = attachedNameOf(conversationId)
  const ids = (all: readonly Attached[]) => all.map(({ id }) => id).join(' ')
  try {
    if (texts.length === 0) sessionStorage.removeItem(name)
    else if (ids(texts) !== ids(attachedOf(before))) sessionStorage.setItem(name, JSON.stringify(texts))
    return sessionStorage.getItem(name) !== null || texts.length === 0
  } catch {
    sessionStorage.removeItem(name)
    return false
  }
}

function attachedOf({ draft, unsent }: Drafts): Attached[] {
  return [...unsent, draft].flatMap(({ attached }) => attached)
}

/** Another tab's words are not ours to remove. */
function isOurs(conversationId: string, before: Drafts): boolean {
  const keys = new Set([before.draft, ...before.unsent].map(({ key }) => key))
  try {
    const text = localStorage.getItem(nameOf(conversationId))
    if (text === null) return false
    const { draft, unsent } = JSON.parse(text) as Stored
    return [draft, ...unsent].some((one) => keys.has(one.key))
  } catch {
    return true
  }
}
