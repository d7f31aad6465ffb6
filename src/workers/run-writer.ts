import type { Ledger, RunHold } from '../core/ledger.ts'
import type { RunRecord } from '../core/run-record.ts'
import { AppendRefused, type RunWriter } from '../core/run-writer.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'

/** Maximum number of frames in flight: enough to keep the ledger busy, few enough to use little memory. */
const MOST_UNSTORED = 6000
/** `room` resolves at this many frames in flight; waiting until all are stored would leave the ledger idle. */
const ROOM_AT = 4000

export function createRunWriter(deps: {
  ledger: Pick<Ledger, 'append'>
  tenant: string
  conversationId: ConversationId
  hold: RunHold
  record: RunRecord
  /** Called as soon as a frame could not be stored, so that the run stops. */
  onFailure: (error: Error) => void
}): RunWriter {
  const { ledger, tenant, conversationId, hold, record, onFailure } = deps
  let collected: FrameDraft[] = []
  let sending: NodeJS.Immediate | null = null
  let appendsInFlight = 0
  let unstoredFrames = 0
  let failure: Error | null = null
  let last: Promise<void> = Promise.resolve()
  let room = Promise.withResolvers<void>()

  function fail(error: Error): void {
    if (failure) return
    failure = error
    onFailure(error)
  }

  /** One append is in flight at a time: what arrives meanwhile is sent when it is stored. */
  function send(): void {
    clearImmediate(sending ?? undefined)
    sending = null
    const frames = collected
    collected = []
    if (frames.length === 0 || failure) return
    appendsInFlight++
    last = ledger
      .append({ tenant, conversationId, run: hold, frames })
      .then((result) => (result.ok ? undefined : fail(new AppendRefused(result.refusal))), fail)
      .finally(() => {
        appendsInFlight--
        unstoredFrames -= frames.length
        if (appendsInFlight === 0) send()
        if (unstoredFrames > ROOM_AT && !failure) return
        room.resolve()
        room = Promise.withResolvers()
      })
  }

  return {
    write(...frames) {
      if (failure) throw failure
      for (const frame of frames) {
        record.note(frame)
        const before = collected.at(-1)
        const joined = appendsInFlight > 0 && before ? joinedDeltas(before, frame) : null
        if (joined) collected[collected.length - 1] = joined
        else {
          collected.push(frame)
          unstoredFrames++
        }
      }
      // The frames of a provider's packet are written in one tick and sent together.
      if (appendsInFlight === 0) sending ??= setImmediate(send)
    },
    async flush() {
      send()
      await last
      if (failure) throw failure
    },
    room: () => (unstoredFrames > MOST_UNSTORED ? room.promise : undefined),
  }
}

/** Kinds whose deltas can be concatenated. */
const deltaKinds = new Set([
  'message.delta',
  'refusal.delta',
  'reasoning_summary.delta',
  'tool.arguments.delta',
  'tool.code.delta',
])
/** Small enough that readers see words arrive, not pages. */
const MOST_JOINED = 400

type Delta = FrameDraft & { delta: string }

/**
 * Joins a delta to the one before it while an append is in flight, so that words which arrive faster than they can be
 * stored share a frame. Null unless both belong to the same part.
 */
function joinedDeltas(before: FrameDraft, next: FrameDraft): FrameDraft | null {
  if (before.kind !== next.kind || !deltaKinds.has(next.kind)) return null
  const [first, second] = [before, next] as [Delta, Delta]
  if (first.delta.length + second.delta.length > MOST_JOINED || !isSamePart(first, second)) return null
  return { ...second, delta: first.delta + second.delta } as FrameDraft
}

function isSamePart(a: FrameDraft, b: FrameDraft): boolean {
  return (
    a.output_index === b.output_index &&
    a.content_index === b.content_index &&
    a.response_id === b.response_id &&
    (a as { summary_index?: number }).summary_index === (b as { summary_index?: number }).summary_index
  )
}
