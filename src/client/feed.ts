import { joinTranscripts } from '../replay/join.ts'
import { emptyTranscript, type Transcript } from '../replay/transcript.ts'
import { readBack } from './earlier.ts'
import type { ClientOptions } from './request.ts'
import type { StreamOptions } from './stream.ts'
import { followTranscript, type ReaderMemory } from './transcript.ts'

/**
 * Shows a conversation from its end: first the last part, then live events, and earlier parts as a person scrolls up.
 * The end is available at once, however long the conversation is.
 */
export interface Feed {
  /** Follows until the signal aborts. A later call continues from there. */
  follow(options: FeedOptions): Promise<void>
  /** Reads the part before the one shown; does nothing at the beginning. */
  earlier(): Promise<void>
}

export interface FeedOptions extends Pick<StreamOptions, 'onState' | 'onQueue' | 'firstWaitMs'> {
  signal: AbortSignal
  onTranscript(transcript: Transcript): void
  /** Called before the transcript that shows the cut. */
  onCut?(after: number): void
}

const AT_LEAST = 400
const EARLIER = 1500

export function createFeed(client: ClientOptions, conversationId: string): Feed {
  /** The part that was read back, and the part that is followed live after it. */
  let before: Transcript | null = null
  let live: Transcript = emptyTranscript()
  let reading: Promise<void> | null = null
  let tell: (transcript: Transcript) => void = () => {}
  /** Number of cuts so far. */
  let cuts = 0
  const memory: ReaderMemory = { reader: null }

  function show(): void {
    tell(before ? joinTranscripts(before, live) : live)
  }

  function take(next: Transcript): void {
    if (before && before.head !== next.from - 1) before = null
    live = next
    show()
  }

  /** Event numbers alone don't identify a line: after a cut it may have grown to the same length again. */
  function cut(after: number): void {
    cuts++
    if (before && after < before.head) before = null
  }

  async function readEarlier(): Promise<void> {
    const from = before?.from ?? live.from
    if (from === 1) return
    const seen = cuts
    const { transcript } = await readBack(client, conversationId, { before: from, atLeast: EARLIER })
    // The line may have changed in the meantime.
    if (seen !== cuts || transcript.head !== (before?.from ?? live.from) - 1) return
    before = before ? joinTranscripts(transcript, before) : transcript
    show()
  }

  return {
    async follow({ onTranscript, onCut = () => {}, ...options }) {
      tell = onTranscript
      const hear = (after: number) => {
        cut(after)
        onCut(after)
      }
      const stream = { ...options, tail: AT_LEAST, onCut: hear }
      for await (const next of followTranscript(client, conversationId, stream, memory)) take(next)
    },
    earlier() {
      reading ??= readEarlier().finally(() => {
        reading = null
      })
      return reading
    },
  }
}

/** The transcript at an event; only its end if it is long. */
export async function transcriptAt(
  client: ClientOptions,
  conversationId: string,
  at: number,
  signal?: AbortSignal,
): Promise<Transcript> {
  const options = { before: at + 1, atLeast: AT_LEAST, ...(signal ? { signal } : {}) }
  return (await readBack(client, conversationId, options)).transcript
}
