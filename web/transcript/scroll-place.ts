/** Where one was in a conversation, kept for this tab: a reload shows the same picture. */
export interface ScrollPlace {
  key: string
  /** The event at which its entry begins. */
  at: number
  offset: number
}

const nameOf = (conversationId: string) => `waymark.place.${conversationId}`

export function keptPlace(conversationId: string): ScrollPlace | null {
  const stored = sessionStorage.getItem(nameOf(conversationId))
  return stored === null ? null : (JSON.parse(stored) as ScrollPlace)
}

/** Null for the end, which is where one is by default. */
export function keepPlace(conversationId: string, place: ScrollPlace | null): void {
  if (place === null) sessionStorage.removeItem(nameOf(conversationId))
  else sessionStorage.setItem(nameOf(conversationId), JSON.stringify(place))
}
