import type { Attached } from './attachments.ts'
import { type Draft, type Drafts, isEmpty, renewed } from './draft.ts'

/** The stored form. Attached texts are stored separately in sessionStorage: they rarely change and may be large. */
interface Plain extends Omit<Draft, 'attached'> {
  attached?: { id: string; name: string }[]
}

interface Stored {
  draft: Plain
  unsent: Plain[]
}

const ATTACHED = 'waymark.attached.'
/** A tab can store about five million characters; this leaves room for message text. */
const MAX_ATTACHED_CHARACTERS = 3_500_000

const nameOf = (conversationId: string) => `waymark.draft.${conversationId}`
const attachedNameOf = (conversationId: string) => `${ATTACHED}${conversationId}`

/** This tab's drafts, or the latest of another tab if this one has none. */
export function stored(conversationId: string): Drafts | null {
  return own(conversationId) ?? ofAnother(conversationId)
}

function own(conversationId: string): Drafts | null {
  const plain = read(sessionStorage, nameOf(conversationId)) as Stored | null
  const texts = read(sessionStorage, attachedNameOf(conversationId)) as Attached[] | null
  return plain && asDrafts(plain, Array.isArray(texts) ? texts : [])
}

function ofAnother(conversationId: string): Drafts | null {
  const plain = read(localStorage, nameOf(conversationId)) as Stored | null
  const drafts = plain && asDrafts(plain, [])
  // Without its attachments it is a different message, so it needs a new key.
  return drafts && { ...drafts, draft: drafts.lost.length > 0 ? renewed(drafts.draft) : drafts.draft }
}

/** Treats unreadable data as missing. */
function read(storage: Storage, name: string): unknown {
  try {
    return JSON.parse(storage.getItem(name) ?? 'null')
  } catch {
    return null
  }
}

function asDrafts({ draft, unsent = [] }: Partial<Stored>, texts: readonly Attached[]): Drafts | null {
  if (!isPlain(draft) || !Array.isArray(unsent) || !unsent.every(isPlain)) return null
  const asDraft = ({ content, files, key, attached = [] }: Plain): Draft => ({
    content,
    files,
    attached: texts.filter(({ id }) => attached.some((one) => one.id === id)),
    key,
  })
  const known = new Set(texts.map(({ id }) => id))
  const lost = [draft, ...unsent].flatMap(({ attached = [] }) => attached.filter(({ id }) => !known.has(id)))
  return { draft: asDraft(draft), unsent: unsent.map(asDraft), lost: lost.map(({ name }) => name) }
}

function isPlain(value: Partial<Plain> | undefined): value is Plain {
  return typeof value?.content === 'string' && typeof value.key === 'string' && Array.isArray(value.files)
}

/** Stores the drafts. Returns true if all of them would survive a reload. */
export function keep(conversationId: string, before: Drafts, now: Drafts): boolean {
  const name = nameOf(conversationId)
  const text = JSON.stringify({ draft: plain(now.draft), unsent: now.unsent.map(plain) } satisfies Stored)
  const isNothing = isEmpty(now.draft) && now.unsent.length === 0
  const areTextsKept = keepAttached(conversationId, before, now)
  // Store empty drafts too, so that this tab does not load another tab's drafts.
  const isKept = write(sessionStorage, name, text)
  const isOurs = isOneOf(before, read(localStorage, name) as Stored | null)
  if (isNothing) {
    if (isOurs) localStorage.removeItem(name)
  } else if (!write(localStorage, name, text) && isOurs) localStorage.removeItem(name)
  return isKept && areTextsKept
}

/** If sessionStorage is full, removes the old value instead of leaving it outdated. */
function write(storage: Storage, name: string, text: string): boolean {
  try {
    storage.setItem(name, text)
    return true
  } catch {
    if (storage === sessionStorage) storage.removeItem(name)
    return false
  }
}

function plain({ content, files, key, attached }: Draft): Plain {
  return { content, files, key, attached: attached.map(({ id, name }) => ({ id, name })) }
}

function keepAttached(conversationId: string, before: Drafts, now: Drafts): boolean {
  const texts = attachedOf(now)
  const name = attachedNameOf(conversationId)
  const ids = (all: readonly Attached[]) => all.map(({ id }) => id).join(' ')
  if (ids(texts) === ids(attachedOf(before)))
    return texts.length === 0 || sessionStorage.getItem(name) !== null
  sessionStorage.removeItem(name)
  if (texts.length === 0) return true
  const text = JSON.stringify(texts)
  return attachedCharacters() + text.length <= MAX_ATTACHED_CHARACTERS && write(sessionStorage, name, text)
}

/** The total of all conversations. */
function attachedCharacters(): number {
  return Object.entries(sessionStorage).reduce(
    (sum, [name, text]) => sum + (name.startsWith(ATTACHED) ? String(text).length : 0),
    0,
  )
}

function attachedOf({ draft, unsent }: Drafts): Attached[] {
  return [...unsent, draft].flatMap(({ attached }) => attached)
}

/** True if the stored drafts are this tab's; another tab's must not be removed. */
function isOneOf({ draft, unsent }: Drafts, there: Stored | null): boolean {
  const keys = new Set([draft, ...unsent].map(({ key }) => key))
  return there !== null && [there.draft, ...(there.unsent ?? [])].some((one) => keys.has(one?.key))
}
