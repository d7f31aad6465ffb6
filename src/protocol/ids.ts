/** Every id is `<prefix>_<26 characters>`: 48 bits of time, then 80 random bits, so ids sort by time. */
export const idPrefixes = ['conv', 'seg', 'run', 'msg', 'resp', 'tok', 'rule'] as const
export type IdPrefix = (typeof idPrefixes)[number]
export type Id<P extends IdPrefix> = `${P}_${string}`

export type ConversationId = Id<'conv'>
export type SegmentId = Id<'seg'>
export type RunId = Id<'run'>

// Crockford's base 32: its characters are in ASCII order, so text order is number order.
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const TIME_CHARACTERS = 10
const RANDOM_CHARACTERS = 16

export function makeId<P extends IdPrefix>(prefix: P, milliseconds: number, random: Uint8Array): Id<P> {
  let time = ''
  for (let rest = milliseconds, i = 0; i < TIME_CHARACTERS; i++) {
    time = ALPHABET.charAt(rest % 32) + time
    rest = Math.floor(rest / 32)
  }
  let chance = ''
  for (let i = 0; i < RANDOM_CHARACTERS; i++) chance += ALPHABET.charAt((random[i] ?? 0) & 31)
  return `${prefix}_${time}${chance}`
}

export function newId<P extends IdPrefix>(prefix: P, milliseconds: number = Date.now()): Id<P> {
  return makeId(prefix, milliseconds, globalThis.crypto.getRandomValues(new Uint8Array(RANDOM_CHARACTERS)))
}

const ID_BODY = '[0-9a-hjkmnp-tv-z]{26}'

export function isId<P extends IdPrefix>(prefix: P, text: string): text is Id<P> {
  return new RegExp(`^${prefix}_${ID_BODY}$`).test(text)
}

/** The workspace id of a conversation's own working copy. */
export function copyWorkspaceId(workspaceId: string, conversationId: string): string {
  return `${workspaceId}.${conversationId}`
}

const COPY = new RegExp(`^(.+)\\.(conv_${ID_BODY})$`)

/** The workspace and conversation that a working copy belongs to; null if the id is not a working copy's. */
export function parseCopyWorkspaceId(
  workspaceId: string | null,
): { workspaceId: string; conversationId: string } | null {
  const [, of, conversationId] = COPY.exec(workspaceId ?? '') ?? []
  return of === undefined || conversationId === undefined ? null : { workspaceId: of, conversationId }
}
