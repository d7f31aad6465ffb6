/** Where one was in a conversation, kept for this tab: a reload shows the same picture. */
export interface ScrollPlace {
  /** The first row in sight. */
  key: string
  /** The event at which its entry begins. */
  at: number
  /** How far below the upper edge it begins; less than 0 when it begins above it. */
  top: number
}

const nameOf = (conversationId: string) => `waymark.place.${conversationId}`

export function keptPlace(conversationId: string): ScrollPlace | null {
  try {
    const stored = JSON.parse(sessionStorage.getItem(nameOf(conversationId)) ?? 'null') as ScrollPlace | null
    return stored && typeof stored.key === 'string' && Number.isFinite(stored.at) ? stored : null
  } catch {
    return null
  }
}

/** Null for the end, which is where one is by default. */
export function keepPlace(conversationId: string, place: ScrollPlace | null): void {
  try {
    if (place === null) sessionStorage.removeItem(nameOf(conversationId))
    else sessionStorage.setItem(nameOf(conversationId), JSON.stringify(place))
  } catch {
    // Without room for it one begins at the end.
  }
}

export function placeIn(scroller: HTMLElement): ScrollPlace | null {
  const edge = scroller.getBoundingClientRect().top
  const row = rowsIn(scroller).find((one) => one.getBoundingClientRect().bottom > edge)
  if (!row) return null
  const { row: key = '', at = '1' } = row.dataset
  return { key, at: Number(at), top: row.getBoundingClientRect().top - edge }
}

/** How far one has to go to be there; nothing while it is not drawn yet. */
export function distanceTo(scroller: HTMLElement, { key, top }: ScrollPlace): number {
  const row = rowsIn(scroller).find((one) => one.dataset.row === key)
  if (!row) return 0
  return row.getBoundingClientRect().top - scroller.getBoundingClientRect().top - top
}

/** As they lie below each other: they need not be in that order in the document. */
function rowsIn(scroller: HTMLElement): HTMLElement[] {
  const rows = [...scroller.querySelectorAll<HTMLElement>('[data-row]')]
  return rows.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
}
