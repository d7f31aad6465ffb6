import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { VirtualizerHandle } from 'virtua'
import type { Row } from './rows.ts'
import { distanceTo, keepPlace, keptPlace, placeIn } from './scroll-place.ts'

/** Closer to the end than this counts as being there. */
const NEAR_END = 60
/** Closer to the beginning than this, what lies before it is fetched. */
const NEAR_START = 2500
/** A scroll this soon after a key or a touch was caused by it. */
const BY_HAND_MS = 400
/** How long rows take to find their place. */
const SETTLE_MS = 600
/** How long what is opened may take to be there. */
const OPENING_MS = 1500
const REST_MS = 120

interface Scrolled {
  conversationId: string
  rows: readonly Row[]
  /** The first event of what is there. */
  from: number
  earlier(): Promise<void>
}

export interface Scroll {
  scroller: RefObject<HTMLDivElement | null>
  list: RefObject<VirtualizerHandle | null>
  isAtEnd: boolean
  /** Rows have come before those that were there: they must not move what is in sight. */
  isPrepended: boolean
  handlers: {
    onScroll(): void
    onWheel(): void
    onTouchMove(): void
    onPointerDown(): void
    onPointerMove(event: { buttons: number }): void
    onKeyDown(): void
    onClick(event: { target: EventTarget }): void
  }
  /** All the way, whatever has to be read for it, unless one moves meanwhile. */
  toStart(): void
  toEnd(): void
  /** To the next message, or the one before. */
  step(direction: 1 | -1): void
}

/**
 * The scroll position in a transcript. At the end it follows while the transcript grows; elsewhere it stays where it is,
 * whatever is added before or after, and is restored after a reload.
 */
export function useScroll({ conversationId, rows, from, earlier }: Scrolled): Scroll {
  const scroller = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const [isAtEnd, setAtEnd] = useState(true)
  const [kept] = useState(() => keptPlace(conversationId))
  /** The way back there could not be read. */
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
    // What is being pressed must not move away under the finger.
    if (element && sticks.current && !isPressed.current) element.scrollTop = element.scrollHeight
  }, [])

  const fillUp = useCallback(() => {
    const element = scroller.current
    if (!element || from === 1 || !isPlaced.current || element.scrollTop > NEAR_START) return
    // Rows that are still finding their place would lose it.
    const wait = settledAt.current - performance.now()
    if (wait > 0) setTimeout(fillUp, wait)
    else void earlier().catch(() => {})
  }, [from, earlier])

  // Where one was before a reload; otherwise at the end.
  useLayoutEffect(() => {
    if (isPlaced.current || rows.length === 0) return
    const isThere = !kept || kept.at >= from || isGivenUp
    if (!isThere) return void earlier().catch(() => setGivenUp(true))
    isPlaced.current = true
    settledAt.current = performance.now() + SETTLE_MS
    const index = kept ? rows.findIndex((row) => row.key === kept.key) : -1
    if (!kept || index < 0) {
      sticks.current = true
      return
    }
    list.current?.scrollToIndex(index, { align: 'start' })
    // To the pixel, as long as the rows around it are still being measured.
    function hold(): void {
      if (performance.now() > settledAt.current) return
      if (kept && scroller.current) scroller.current.scrollTop += distanceTo(scroller.current, kept)
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
    // As long as the rows are still finding their place.
    const until = performance.now() + SETTLE_MS
    function hold(): void {
      if (!isGoingToStart.current) return
      if (scroller.current) scroller.current.scrollTop = 0
      if (performance.now() < until) requestAnimationFrame(hold)
      else isGoingToStart.current = false
    }
    requestAnimationFrame(hold)
  }, [from, earlier])
  // Each time another part is there.
  useLayoutEffect(goToStart, [goToStart])

  // A card that opens, or rows that turn out higher than they were thought to be, move the end, too.
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
    // Only a person who goes up leaves the end: what grows moves it away by itself.
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

  /** What is opened stays where it is, and does not push itself out of sight. */
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
