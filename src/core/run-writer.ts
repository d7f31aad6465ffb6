import type { FrameDraft } from '../protocol/frames.ts'
import type { AppendRefusal } from './ledger.ts'

/** Sends the frames of one run to the ledger without waiting for each append. */
export interface RunWriter {
  /** Throws when an earlier frame could not be stored: no frame may follow a missing one (L3). */
  write(...frames: FrameDraft[]): void
  /** Resolves when everything written so far is durable; throws when it could not be stored. */
  flush(): Promise<void>
  /** Await this when writing a lot; it resolves when few frames are unstored. */
  room(): Promise<void> | undefined
}

/** The ledger refused a frame. */
export class AppendRefused extends Error {
  readonly refusal: AppendRefusal

  constructor(refusal: AppendRefusal) {
    super(`the ledger refused a frame: ${refusal}`)
    this.name = 'AppendRefused'
    this.refusal = refusal
  }
}
