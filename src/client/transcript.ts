import { cutTranscript } from '../replay/cut.ts'
import { applyFrames } from '../replay/reduce.ts'
import { emptyTranscript, type Transcript } from '../replay/transcript.ts'
import { readBack } from './earlier.ts'
import { type ClientOptions, RequestError } from './request.ts'
import { pause, type StreamItem, type StreamOptions, streamLedger, waitFor } from './stream.ts'

export interface TranscriptOptions extends Omit<StreamOptions, 'cursor'> {
  /** Start with about this many of the last events, instead of the first. */
  tail?: number
  /** Called before the transcript that shows the cut: events after this one are no longer on the line. */
  onCut?: (after: number) => void
}

/**
 * Yields a new transcript whenever frames have arrived. A cut in the middle of an entry removes the whole entry; what
 * is left of it is read again.
 */
export async function* followTranscript(
  client: ClientOptions,
  conversationId: string,
  options: TranscriptOptions = {},
  /** Pass it again to continue from there. */
  memory: ReaderMemory = { reader: null },
): AsyncGenerator<Transcript> {
  const { tail, onCut = () => {}, ...streamOptions } = options
  let reader = memory.reader ?? (await openReader(client, conversationId, options))
  memory.reader = reader
  if (reader && tail !== undefined) yield reader.transcript()
  let again = true
  while (again && !options.signal?.aborted) {
    again = false
    const cursor = reader?.cursor()
    for await (const items of streamLedger(client, conversationId, {
      ...streamOptions,
      ...(cursor ? { cursor } : {}),
    })) {
      for (const item of items) if (item.type === 'cut') onCut(item.after)
      const next = reader?.take(items)
      again = next !== 'go on'
      // Its start was removed from the line: open a new reader.
      if (next === 'begin again') reader = await openReader(client, conversationId, options)
      memory.reader = reader
      if (!reader) return
      yield reader.transcript()
      if (again) break
    }
  }
}

type Reader = ReturnType<typeof createTranscriptReader>

export interface ReaderMemory {
  reader: Reader | null
}

/** Null when aborted. Retries temporary errors, as a stream does. */
async function openReader(
  client: ClientOptions,
  conversationId: string,
  { tail, signal, onState = () => {}, firstWaitMs }: TranscriptOptions,
): Promise<Reader | null> {
  if (tail === undefined) return createTranscriptReader(emptyTranscript(), null)
  for (let failures = 0; ; failures++) {
    try {
      onState('connecting')
      const options = { atLeast: tail, ...(signal ? { signal } : {}) }
      const { transcript, cursor } = await readBack(client, conversationId, options)
      return createTranscriptReader(transcript, cursor)
    } catch (error) {
      if (signal?.aborted) return null
      if (error instanceof RequestError && !error.mayPass) throw error
    }
    onState('waiting')
    await pause(waitFor(failures, firstWaitMs), signal)
    if (signal?.aborted) return null
  }
}

function createTranscriptReader(begin: Transcript, beginCursor: string | null) {
  let transcript = begin
  /** The cursor after each entry's last event, for returning to the start of an entry that a cut divides. */
  const places: { seq: number; cursor: string }[] =
    beginCursor === null ? [] : [{ seq: begin.head, cursor: beginCursor }]

  function cut(after: number): 'go on' | 'read again' | 'begin again' {
    transcript = cutTranscript(transcript, after)
    while ((places.at(-1)?.seq ?? 0) > transcript.head) places.pop()
    const { head, from, entries } = transcript
    if (entries.length === 0 && from > 1) return 'begin again'
    if (head === after) return 'go on'
    return head === 0 || places.at(-1)?.seq === head ? 'read again' : 'begin again'
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
    /** Where to continue reading; undefined for the beginning. */
    cursor: () => places.findLast((place) => place.seq === transcript.head)?.cursor,
    take(items: readonly StreamItem[]): 'go on' | 'read again' | 'begin again' {
      let frames: (StreamItem & { type: 'frame' })[] = []
      for (const item of items) {
        if (item.type === 'frame') frames.push(item)
        else {
          takeFrames(frames)
          frames = []
          const next = cut(item.after)
          if (next !== 'go on') return next
        }
      }
      takeFrames(frames)
      return 'go on'
    },
  }
}
