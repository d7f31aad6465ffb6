import { useCallback, useEffect, useRef, useState } from 'react'
import type { Feed, StreamState } from '../../src/client/index.ts'
import type { QueueView } from '../../src/protocol/api/runs.ts'
import type { Transcript } from '../../src/replay/transcript.ts'
import { leaveIfSignedOut, server } from '../server.ts'

export interface FeedView {
  conversationId: string
  /** Null until the end of the transcript has been loaded. */
  transcript: Transcript | null
  queue: QueueView | null
  state: StreamState
  error: unknown
  /** Changes whenever events leave the line. */
  cutCount: number
  earlier(): Promise<void>
}

/** Runs `work` in the next animation frame, or after 250 ms in background tabs, which have no animation frames. */
function atNextFrame(work: () => void): () => void {
  const timer = setTimeout(run, 250)
  const frame = requestAnimationFrame(run)
  let isDone = false
  function run(): void {
    if (isDone) return
    stop()
    work()
  }
  function stop(): void {
    isDone = true
    clearTimeout(timer)
    cancelAnimationFrame(frame)
  }
  return stop
}

/** Browsers limit connections per server across tabs, so a tab hidden for this long closes its stream. */
const HIDDEN_MS = 60_000

/** Starts now and whenever the tab becomes visible; stops HIDDEN_MS after it is hidden. */
function whileLookedAt(start: () => void, stop: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  function look(): void {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(stop, HIDDEN_MS)
    else start()
  }
  start()
  look()
  document.addEventListener('visibilitychange', look)
  return () => {
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', look)
  }
}

/** Follows a conversation. Reconnects automatically and never shows less than before. Remount for another conversation. */
export function useFeed(conversationId: string): FeedView {
  const [view, setView] = useState<Omit<FeedView, 'earlier'>>({
    conversationId,
    transcript: null,
    queue: null,
    state: 'connecting',
    error: null,
    cutCount: 0,
  })
  const feed = useRef<Feed | null>(null)

  useEffect(() => {
    let next: Partial<FeedView> = {}
    let cutCount = 0
    let stopWaiting: (() => void) | null = null
    function change(part: Partial<FeedView>): void {
      next = { ...next, ...part }
      stopWaiting ??= atNextFrame(() => {
        stopWaiting = null
        const changed = next
        next = {}
        setView((before) => ({ ...before, ...changed }))
      })
    }
    feed.current = server.feed(conversationId)
    const { follow } = feed.current
    let following: AbortController | null = null
    function start(): void {
      if (following) return
      following = new AbortController()
      follow({
        signal: following.signal,
        onTranscript: (transcript) => change({ transcript }),
        onCut: () => change({ cutCount: ++cutCount }),
        onQueue: (queue) => change({ queue }),
        onState: (state) => change({ state }),
      }).catch((error: unknown) => {
        leaveIfSignedOut(error)
        change({ error })
      })
    }
    function stop(): void {
      following?.abort()
      following = null
    }

    const unwatch = whileLookedAt(start, stop)
    return () => {
      unwatch()
      stop()
      stopWaiting?.()
    }
  }, [conversationId])

  const earlier = useCallback(async () => await feed.current?.earlier(), [])
  return { ...view, earlier }
}
