import type { Dialect } from './dialect.ts'
import type { Refusal } from './refusal.ts'
import { first, type Script } from './script.ts'

/** Whether projections are behind: then it is not known what names a state, a checkpoint or a blob, and what must be kept. */
export function* isRebuilding({ db }: Dialect): Script<boolean> {
  return (yield* first(db.selectFrom('unprojected').select('segment').limit(1))) !== undefined
}

export const rebuilding = {
  refused: 'storage_failed',
  why: 'The read models are being made again, and what is asked for is not known yet. Try again in a moment.',
} as const satisfies Refusal
