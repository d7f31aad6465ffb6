import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { AppendRefusal, Ledger, RunHold } from './ledger.ts'
import type { RunRecord } from './run-record.ts'

/** Frames of one run on their way to the ledger, handed over without waiting for each. */
export interface RunWriter {
  /** Throws when an earlier frame could not be stored: nothing may come behind it (L3). */
  write(...frames: FrameDraft[]): void
  /** Resolves when everything written so far is durable, and throws when it could not be. */
  flush(): Promise<void>
  /** To be awaited by whoever writes much: resolves when not too much is under way. */
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

/** So many frames may be under way: enough to fill a group commit, few enough to cost no memory. */
const MOST_UNDER_WAY = 2000

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
  let underWay = 0
  let failure: Error | null = null
  let last: Promise<void> = Promise.resolve()

  function fail(error: Error): void {
    if (failure) return
    failure = error
    onFailure(error)
  }

  return {
    write(...frames) {
      if (failure) throw failure
      if (frames.length === 0) return
      for (const frame of frames) record.note(frame)
      underWay += frames.length
      last = ledger
        .append({ tenant, conversationId, run: hold, frames })
        .then((result) => (result.ok ? undefined : fail(new AppendRefused(result.refusal))), fail)
        .finally(() => {
          underWay -= frames.length
        })
    },
    async flush() {
      await last
      if (failure) throw failure
    },
    room: () => (underWay > MOST_UNDER_WAY ? last : undefined),
  }
}
