import { cutTranscript } from '../replay/cut.ts'
import { applyFrames } from '../replay/reduce.ts'
import { emptyTranscript, type Transcript } from '../replay/transcript.ts'
import type { ClientOptions } from './request.ts'
import { type StreamItem, type StreamOptions, streamLedger } from './stream.ts'

/**
 * The transcript as it grows: a new one whenever frames have arrived. A cut through the middle of an entry takes the
 * whole entry away, and what is left of it is read again.
 */
export async function* followTranscript(
  client: ClientOptions,
  conversationId: string,
  options: Omit<StreamOptions, 'cursor'> = {},
): AsyncGenerator<Transcript> {
  const reader = createTranscriptReader()
  let again = true
  while (again && !options.signal?.aborted) {
    again = false
    const cursor = reader.cursor()
    for await (const items of streamLedger(client, conversationId, {
      ...options,
      ...(cursor ? { cursor } : {}),
    })) {
      again = reader.take(items) === 'read again'
      yield reader.transcript()
      if (again) break
    }
  }
}

function createTranscriptReader() {
  let transcript = emptyTranscript()
  /** The cursor behind each entry's last event, for going back to the start of one that a cut went through. */
  const places: { seq: number; cursor: string }[] = []

  function cut(after: number): 'go on' | 'read again' {
    transcript = cutTranscript(transcript, after)
    while ((places.at(-1)?.seq ?? 0) > transcript.head) places.pop()
    return transcript.head < after ? 'read again' : 'go on'
  }

  function takeFrames(items: (StreamItem & { type: 'frame' })[]): void {
    for (const { frame, cursor } of items) places.push({ seq: frame.event_id, cursor })
    transcript = applyFrames(
      transcript,
      items.map((item) => item.frame),
    )
    const starts = new Set(transcript.entries.map((entry) => entry.at - 1))
    const kept = places.filter((place, index) => index === places.length - 1 || starts.has(place.seq))
    places.splice(0, places.length, ...kept)
  }

  return {
    transcript: () => transcript,
    /** Where to read on; nothing when it is the beginning. */
    cursor: () => places.findLast((place) => place.seq === transcript.head)?.cursor,
    take(items: readonly StreamItem[]): 'go on' | 'read again' {
      let frames: (StreamItem & { type: 'frame' })[] = []
      for (const item of items) {
        if (item.type === 'frame') frames.push(item)
        else {
          takeFrames(frames)
          frames = []
          if (cut(item.after) === 'read again') return 'read again'
        }
      }
      takeFrames(frames)
      return 'go on'
    },
  }
}
