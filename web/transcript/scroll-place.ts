/** The scroll position in a conversation, kept per tab, so that a reload shows the same view. */
export interface ScrollPlace {
  /** The first visible row. */
  key: string
  /** The event at which its entry starts. */
  at: number
  /** Offset of the row from the top edge; negative if the row starts above it. */
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

/** Null stands for the end, the default. */
export function keepPlace(conversationId: string, place: ScrollPlace | null): void {
  try {
    if (place === null) sessionStorage.removeItem(nameOf(conversationId))
    else sessionStorage.setItem(nameOf(conversationId), JSON.stringify(place))
  } catch {
    // If storage is full, a reload starts at the end.
  }
}

export function placeIn(scroller: HTMLElement): ScrollPlace | null {
  const edge = scroller.getBoundingClientRect().top
  const row = rowsIn(scroller).find((one) => one.getBoundingClientRect().bottom > edge)
  if (!row) return null
  const { row: key = '', at = '1' } = row.dataset
  return { key, at: Number(at), top: row.getBoundingClientRect().top - edge }
}

/** The scroll distance to a position; 0 while its row is not rendered. */
export function distanceTo(scroller: HTMLElement, { key, top }: ScrollPlace): number {
  const row = rowsIn(scroller).find((one) => one.dataset.row === key)
  if (!row) return 0
  return row.getBoundingClientRect().top - scroller.getBoundingClientRect().top - top
}

/** Rows in visual order, which may differ from document order. */
function rowsIn(scroller: HTMLElement): HTMLElement[] {
  const rows = [...scroller.querySelectorAll<HTMLElement>('[data-row]')]
  return rows.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
}
