import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { VirtualizerHandle } from 'virtua'
import { eventOf, type Row } from './rows.ts'
import { distanceTo, keepPlace, keptPlace, placeIn, type ScrollPlace } from './scroll-place.ts'

/** Within this distance (px) of the end, the view counts as being at the end. */
const NEAR_END = 60
/** Within this distance (px) of the top, earlier rows are loaded. */
const NEAR_START = 2500
/** A scroll within this time of user input counts as caused by the user. */
const BY_HAND_MS = 400
/** How long rows take to settle after they are measured. */
const SETTLE_MS = 600
/** How long expanded content may take to load. */
const OPENING_MS = 1500
const REST_MS = 120
/** Distance (px) of the row to begin at from the top edge. */
const TARGET_TOP = 24

interface Scrolled {
  conversationId: string
  rows: readonly Row[]
  /** The first loaded event. */
  from: number
  /** The event to begin at; null for where the reader was, or the end. */
  at: number | null
  earlier(): Promise<void>
}

export interface Scroll {
  scroller: RefObject<HTMLDivElement | null>
  list: RefObject<VirtualizerHandle | null>
  isAtEnd: boolean
  /** Rows were prepended; the visible rows must not move. */
  isPrepended: boolean
  /** The row of the event to begin at. */
  target: string | null
  handlers: {
    onScroll(): void
    onWheel(): void
    onTouchMove(): void
    onPointerDown(): void
    onPointerMove(event: { buttons: number }): void
    onKeyDown(): void
    onClick(event: { target: EventTarget }): void
  }
  /** Scrolls to the very start, loading all earlier rows, unless the user scrolls meanwhile. */
  toStart(): void
  toEnd(): void
  /** Scrolls to the next or the previous message. */
  step(direction: 1 | -1): void
}

/**
 * The scroll position in a transcript. At the end it follows while the transcript grows; elsewhere it stays where it is,
 * whatever is added before or after, and is restored after a reload.
 */
export function useScroll({ conversationId, rows, from, at, earlier }: Scrolled): Scroll {
  const scroller = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const [isAtEnd, setAtEnd] = useState(true)
  const [kept] = useState(() => (at === null ? keptPlace(conversationId) : { key: '', at, top: TARGET_TOP }))
  /** Loading back to the kept position failed. */
  const [isGivenUp, setGivenUp] = useState(false)
  const sticks = useRef(kept === null)
  const isPlaced = useRef(false)
  const settledAt = useRef(0)
  const resting = useRef<ReturnType<typeof setTimeout>>(undefined)
  const opening = useRef<ReturnType<typeof setTimeout>>(undefined)
  const movedAt = useRef(-BY_HAND_MS)
  const lastFrom = useRef(from)
  const lastTop = useRef(0)
  const isPressed = useRef(false)
  const isGoingToStart = useRef(false)

  const stick = useCallback(() => {
    const element = scroller.current
    // Don't scroll during a press, so that the target does not move away under the pointer.
    if (element && sticks.current && !isPressed.current) element.scrollTop = element.scrollHeight
  }, [])

  const fillUp = useCallback(() => {
    const element = scroller.current
    if (!element || from === 1 || !isPlaced.current || element.scrollTop > NEAR_START) return
    // Prepending before the rows have settled would shift them.
    const wait = settledAt.current - performance.now()
    if (wait > 0) setTimeout(fillUp, wait)
    else void earlier().catch(() => {})
  }, [from, earlier])

  // Restore the position from before a reload; otherwise start at the end.
  useLayoutEffect(() => {
    if (isPlaced.current || rows.length === 0) return
    const isThere = !kept || kept.at >= from || isGivenUp
    if (!isThere) return void earlier().catch(() => setGivenUp(true))
    isPlaced.current = true
    settledAt.current = performance.now() + SETTLE_MS
    const index = kept ? rowOf(rows, kept) : -1
    const place = kept && { ...kept, key: rows[index]?.key ?? '' }
    if (!kept || index < 0) {
      sticks.current = true
      return
    }
    list.current?.scrollToIndex(index, { align: 'start' })
    // Hold the exact position while the surrounding rows are still being measured.
    function hold(): void {
      if (performance.now() > settledAt.current) return
      if (place && scroller.current) scroller.current.scrollTop += distanceTo(scroller.current, place)
      requestAnimationFrame(hold)
    }
    requestAnimationFrame(hold)
  }, [rows, kept, from, earlier, isGivenUp])

  useLayoutEffect(() => {
    lastFrom.current = from
    stick()
    const element = scroller.current
    if (!element || !isPlaced.current) return
    const left = element.scrollHeight - element.scrollTop - element.clientHeight
    setAtEnd(sticks.current || left < NEAR_END)
  }, [rows, from, stick])

  const goToStart = useCallback(() => {
    if (!isGoingToStart.current) return
    if (from > 1) {
      earlier().catch(() => {
        isGoingToStart.current = false
      })
      return
    }
    // Hold the start while the rows settle.
    const until = performance.now() + SETTLE_MS
    function hold(): void {
      if (!isGoingToStart.current) return
      if (scroller.current) scroller.current.scrollTop = 0
      if (performance.now() < until) requestAnimationFrame(hold)
      else isGoingToStart.current = false
    }
    requestAnimationFrame(hold)
  }, [from, earlier])
  // Continue after each loaded part.
  useLayoutEffect(goToStart, [goToStart])

  // Expanding cards, and rows higher than estimated, also move the end.
  useEffect(() => {
    const watch = new ResizeObserver(stick)
    for (const element of [scroller.current, scroller.current?.firstElementChild]) {
      if (element) watch.observe(element)
    }
    return () => watch.disconnect()
  }, [stick])

  useEffect(() => {
    function release(): void {
      isPressed.current = false
      stick()
    }
    const kinds = ['pointerup', 'pointercancel'] as const
    for (const kind of kinds) addEventListener(kind, release)
    return () => {
      for (const kind of kinds) removeEventListener(kind, release)
    }
  }, [stick])

  useEffect(fillUp, [fillUp])

  const keep = useCallback(() => {
    if (!scroller.current || !isPlaced.current) return
    keepPlace(conversationId, sticks.current ? null : placeIn(scroller.current))
  }, [conversationId])
  useEffect(() => {
    addEventListener('pagehide', keep)
    return () => {
      clearTimeout(resting.current)
      clearTimeout(opening.current)
      removeEventListener('pagehide', keep)
    }
  }, [keep])

  function onScroll(): void {
    const element = scroller.current
    if (!element || !isPlaced.current) return
    const left = element.scrollHeight - element.scrollTop - element.clientHeight
    const isByHand = performance.now() - movedAt.current < BY_HAND_MS
    const isUpwards = element.scrollTop < lastTop.current
    lastTop.current = element.scrollTop
    // Only the user scrolling up leaves the end; growing content also changes the distance to it.
    if (isByHand && (isUpwards || left < NEAR_END)) sticks.current = left < NEAR_END
    setAtEnd(sticks.current || left < NEAR_END)
    fillUp()
    clearTimeout(resting.current)
    resting.current = setTimeout(keep, REST_MS)
  }

  function byHand(): void {
    movedAt.current = performance.now()
    settledAt.current = 0
    isGoingToStart.current = false
  }

  /** Stops following the end while a card expands, so that the card stays in view. */
  function onClick({ target }: { target: EventTarget }): void {
    if (!sticks.current || !(target instanceof Element) || !target.closest('[aria-expanded], summary')) return
    sticks.current = false
    clearTimeout(opening.current)
    opening.current = setTimeout(() => {
      const element = scroller.current
      if (element) sticks.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END
    }, OPENING_MS)
  }

  function toRow(index: number): void {
    byHand()
    sticks.current = false
    list.current?.scrollToIndex(index, { align: 'start' })
  }

  function toEnd(): void {
    sticks.current = true
    setAtEnd(true)
    keep()
    stick()
  }

  return {
    scroller,
    list,
    isAtEnd,
    isPrepended: from < lastFrom.current,
    target: kept && at !== null ? (rows[rowOf(rows, kept)]?.key ?? null) : null,
    handlers: {
      onScroll,
      onWheel: byHand,
      onTouchMove: byHand,
      onPointerDown() {
        byHand()
        isPressed.current = true
      },
      onPointerMove: ({ buttons }) => void (buttons > 0 && byHand()),
      onKeyDown: byHand,
      onClick,
    },
    toStart() {
      byHand()
      sticks.current = false
      isGoingToStart.current = true
      goToStart()
    },
    toEnd,
    step(direction) {
      const handle = list.current
      if (!handle) return
      let index = handle.findItemIndex(handle.scrollOffset + 8) + direction
      while (rows[index] && rows[index]?.type !== 'message') index += direction
      if (rows[index]) toRow(index)
      else if (direction > 0) toEnd()
    },
  }
}

/** The row of a kept place; without a key, the first row of the entry that has its event. */
function rowOf(rows: readonly Row[], { key, at }: ScrollPlace): number {
  if (key !== '') return rows.findIndex((row) => row.key === key)
  const last = rows.findLast((row) => eventOf(row) <= at)
  return last ? rows.findIndex((row) => eventOf(row) === eventOf(last)) : -1
}
