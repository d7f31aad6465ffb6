import { useEffect, useState } from 'react'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import type { Transcript } from '../../src/replay/transcript.ts'
import { createFrameSource } from './frame-source.ts'

export const speeds = [1, 4, 16] as const

export interface Replay {
  at: number
  frame: AnyFrame | null
  transcript: Transcript | null
  isPlaying: boolean
  speed: number
  error: unknown
  move(to: number): void
  play(isPlaying: boolean): void
  setSpeed(speed: number): void
}

/** Longer pauses are shortened to this. */
const LONGEST_PAUSE_MS = 1500

/** Replays a conversation with its original timing, from event `start`; null starts at the end. */
export function useReplay(
  conversationId: string,
  head: number,
  cutCount: number,
  start: number | null,
): Replay {
  const [source, setSource] = useState(() => createFrameSource(conversationId))
  const [lastCutCount, setLastCutCount] = useState(cutCount)
  if (cutCount !== lastCutCount) {
    setLastCutCount(cutCount)
    // Cached events may no longer be on the line.
    setSource(createFrameSource(conversationId))
  }
  const [at, setAt] = useState(() => Math.min(start ?? head, head))
  const [shown, setShown] = useState<{ frame: AnyFrame | null; transcript: Transcript | null }>({
    frame: null,
    transcript: null,
  })
  const [isPlaying, setPlaying] = useState(false)
  const [speed, setSpeed] = useState<number>(speeds[0])
  const [error, setError] = useState<unknown>(null)

  // Stop at the end, even if events are added later.
  if (isPlaying && at >= head) setPlaying(false)
  // A cut may have shortened the line.
  const here = Math.min(at, head)
  useEffect(() => {
    let isGone = false
    Promise.all([source.transcript(here), source.frame(here)]).then(
      ([transcript, frame]) => {
        if (isGone) return
        setShown({ transcript, frame: frame ?? null })
        setError(null)
      },
      (failure: unknown) => {
        if (!isGone) setError(failure)
      },
    )
    return () => {
      isGone = true
    }
  }, [source, here])

  useEffect(() => {
    if (!isPlaying || at >= head) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let isGone = false
    void Promise.all([source.frame(at), source.frame(at + 1)]).then(([now, next]) => {
      if (isGone) return
      const gap = now && next ? Date.parse(next.server_timestamp) - Date.parse(now.server_timestamp) : 0
      timer = setTimeout(() => setAt(at + 1), Math.min(Math.max(gap, 0), LONGEST_PAUSE_MS) / speed)
    }, setError)
    return () => {
      isGone = true
      clearTimeout(timer)
    }
  }, [source, at, head, isPlaying, speed])

  return {
    at: here,
    ...shown,
    isPlaying,
    speed,
    error,
    move: (to) => setAt(Math.min(Math.max(1, Math.round(to)), head)),
    // Playing from the end restarts at the first event.
    play: (next) => {
      if (next && at >= head) setAt(1)
      setPlaying(next)
    },
    setSpeed,
  }
}
