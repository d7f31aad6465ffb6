import type { Tip } from '../../../core/seal.ts'

/** The segment that a conversation's new events go to, and its tip. */
export interface Head {
  tenant: string
  segment: number
  tip: Tip
  /** False until a rebuild catches up; until then the rebuild projects new events, in order. */
  isProjected: boolean
}
