import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { AppendRefusal, Ledger, RunHold } from './ledger.ts'
import type { RunRecord } from './run-record.ts'

/** Frames of one run on their way to the ledger, handed over without waiting for each. */
export interface RunWriter {
  /** Throws when an earlier frame could not be stored: nothing may come after it (L3). */
  write(...frames: FrameDraft[]): void
  /** Resolves when everything written so far is durable, and throws when it could not be. */
  flush(): Promise<void>
  /** Await it when writing a lot: resolves when few appends are in flight. */
  room(): Promise<void> | undefined
}

/** The ledger would not take a frame. */
export class AppendRefused extends Error {
  readonly refusal: AppendRefusal

  constructor(refusal: AppendRefusal) {
    super(`the ledger refused a frame: ${refusal}`)
    this.name = 'AppendRefused'
    this.refusal = refusal
  }
}

/** Between two appends of a run that has more to say than one commit can take. */
const PAUSE_MS = 8
/** So many frames may be under way: enough to keep the ledger busy, few enough to cost no memory. */
const MOST_UNDER_WAY = 6000
/** And so many are left when there is room again: who waited for all of them would let the ledger run dry. */
const ROOM_AT = 4000

export function createRunWriter(deps: {
  ledger: Pick<Ledger, 'append'>
  tenant: string
  conversationId: ConversationId
  hold: RunHold
  record: RunRecord
  /** Told at once when a frame could not be stored, so that whatever is going on stops. */
  onFailure: (error: Error) => void
}): RunWriter {
  const { ledger, tenant, conversationId, hold, record, onFailure } = deps
  let collected: FrameDraft[] = []
  let sending: NodeJS.Timeout | NodeJS.Immediate | null = null
  let unstored = 0
  let lastSent = 0
  let underWay = 0
  let failure: Error | null = null
  let last: Promise<void> = Promise.resolve()
  let room = Promise.withResolvers<void>()

  function fail(error: Error): void {
    if (failure) return
    failure = error
    onFailure(error)
  }

  /**
   * When nothing is under way, at once: what one packet of the provider's has brought. Otherwise with what else comes
   * until then and within a moment: a fast answer is stored in few large commits, a slow one word by word.
   */
  function sendSoon(): void {
    if (sending || collected.length === 0 || unstored > 0) return
    const wait = lastSent + PAUSE_MS - performance.now()
    sending = wait <= 0 ? setImmediate(send) : setTimeout(send, wait)
  }

  function send(): void {
    clearTimeout(sending as NodeJS.Timeout)
    clearImmediate(sending as NodeJS.Immediate)
    sending = null
    const frames = collected
    collected = []
    if (frames.length === 0 || failure) return
    unstored++
    lastSent = performance.now()
    last = ledger
      .append({ tenant, conversationId, run: hold, frames })
      .then((result) => (result.ok ? undefined : fail(new AppendRefused(result.refusal))), fail)
      .finally(() => {
        unstored--
        underWay -= frames.length
        sendSoon()
        if (underWay > ROOM_AT && !failure) return
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
        const joined = unstored > 0 && before ? joinedDeltas(before, frame) : null
        if (joined) collected[collected.length - 1] = joined
        else {
          collected.push(frame)
          underWay++
        }
      }
      sendSoon()
    },
    async flush() {
      send()
      await last
      if (failure) throw failure
    },
    room: () => (underWay > MOST_UNDER_WAY ? room.promise : undefined),
  }
}

/** Kinds whose text adds up. */
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
 * Words that come faster than they can be stored are stored several to a frame: while an append is under way, a delta
 * joins the one before it of the same part. Null when they don't belong together.
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
