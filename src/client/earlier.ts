import type { EventsPage } from '../protocol/api/ledger.ts'
import type { AnyFrame } from '../protocol/frames.ts'
import { applyFrames } from '../replay/reduce.ts'
import { emptyTranscript, type Transcript } from '../replay/transcript.ts'
import { type ClientOptions, request } from './request.ts'

/** A part of a line that ends before an event and starts at a person's message, so that no run is split. */
export interface TranscriptPart {
  transcript: Transcript
  /** The cursor after its last event. */
  cursor: string | null
}

const PAGE = 1000

/** Reads back from an event (default: the end) to a message, at least `atLeast` events or a full page. */
export async function readBack(
  client: ClientOptions,
  conversationId: string,
  options: { before?: number; atLeast: number; signal?: AbortSignal },
): Promise<TranscriptPart> {
  const { atLeast, signal } = options
  /** Last page first. */
  const pages: AnyFrame[][] = []
  let before = options.before ?? Number.MAX_SAFE_INTEGER
  let cursor: string | null = null
  for (;;) {
    const limit = pages.length === 0 ? Math.min(PAGE, atLeast) : PAGE
    const page = await readPage(client, conversationId, before, limit, signal)
    const frames = page.items as AnyFrame[]
    cursor ??= page.last_cursor
    before = frames[0]?.event_id ?? 1
    const start = before === 1 ? 0 : frames.findIndex((frame) => frame.kind === 'message.user')
    pages.push(start < 0 ? frames : frames.slice(start))
    if (start < 0) continue
    const from = frames[start]?.event_id ?? 1
    return { transcript: applyFrames(emptyTranscript(from), pages.toReversed().flat()), cursor }
  }
}

/** The frames just before an event, as stored in the ledger. */
async function readPage(
  client: ClientOptions,
  conversationId: string,
  before: number,
  limit: number,
  signal?: AbortSignal,
): Promise<EventsPage> {
  const response = await request(client, `/conversations/${conversationId}/ledger/events`, {
    query: { before, limit },
    ...(signal ? { signal } : {}),
  })
  return (await response.json()) as EventsPage
}
