import type { AppendResult, Ledger, RunHold } from '../core/ledger.ts'
import type { RunRecord } from '../core/run-record.ts'
import { AppendRefused, type RunWriter } from '../core/run-writer.ts'
import type { ConversationId } from '../protocol/ids.ts'

/** Maximum number of frames in flight: enough to keep the ledger busy, few enough to use little memory. */
const MOST_UNSTORED = 6000
/** `room` resolves at this many frames in flight; waiting until all are stored would leave the ledger idle. */
const ROOM_AT = 4000

interface Watched {
  stored: Promise<AppendResult>
  frames: number
  done: Promise<void>
}

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
  let unstoredFrames = 0
  let failure: Error | null = null
  let last: Watched | null = null
  let room = Promise.withResolvers<void>()

  function fail(error: Error): void {
    if (failure) return
    failure = error
    onFailure(error)
  }

  function noteStored(frames: number): void {
    unstoredFrames -= frames
    if (unstoredFrames > ROOM_AT && !failure) return
    room.resolve()
    room = Promise.withResolvers()
  }

  /** Watches an append, which may grow until it is stored. */
  function watch(stored: Promise<AppendResult>): Watched {
    const watched: Watched = { stored, frames: 0, done: Promise.resolve() }
    watched.done = stored
      .then((result) => (result.ok ? undefined : fail(new AppendRefused(result.refusal))), fail)
      .finally(() => noteStored(watched.frames))
    return watched
  }

  return {
    write(...frames) {
      if (failure) throw failure
      for (const frame of frames) record.note(frame)
      unstoredFrames += frames.length
      const stored = ledger.append({ tenant, conversationId, run: hold, frames, mayGrow: true })
      if (last?.stored !== stored) last = watch(stored)
      last.frames += frames.length
    },
    async flush() {
      await last?.done
      if (failure) throw failure
    },
    room: () => (unstoredFrames > MOST_UNSTORED ? room.promise : undefined),
  }
}
