import type { Dialect } from '../dialect.ts'
import type { Refusal } from '../refusal.ts'
import { first, type Script } from '../script.ts'

/** True until projections have caught up. Until then the store does not know which states, checkpoints and blobs are in use. */
export function* isRebuilding({ db }: Dialect): Script<boolean> {
  return (yield* first(db.selectFrom('unprojected').select('segment').limit(1))) !== undefined
}

export const rebuilding = {
  refused: 'rebuilding',
  why: 'The server is rebuilding its read models. Try again in a moment.',
} as const satisfies Refusal
