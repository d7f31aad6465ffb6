import { hash } from 'node:crypto'
import { type Id, type IdPrefix, makeId } from '../protocol/ids.ts'

/** An id that is the same for the same parts: for what must get the same id when it is made again. */
export function derivedId<P extends IdPrefix>(
  prefix: P,
  milliseconds: number,
  ...parts: readonly unknown[]
): Id<P> {
  return makeId(prefix, milliseconds, hash('sha256', JSON.stringify([prefix, ...parts]), 'buffer'))
}
