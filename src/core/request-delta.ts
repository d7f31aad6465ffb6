/** How a request's bytes follow from those of an earlier one: its beginning, new bytes, its end. */
export interface RequestDelta {
  /** Bytes that both begin with. */
  prefix: number
  /** Bytes that both end with. */
  suffix: number
}

/** The difference between two requests. A growing history keeps its beginning, and the fields after it keep the end. */
export function requestDelta(base: Uint8Array, next: Uint8Array): RequestDelta {
  const most = Math.min(base.length, next.length)
  let prefix = 0
  while (prefix + STEP <= most && isSame(base, prefix, next, prefix)) prefix += STEP
  while (prefix < most && base[prefix] === next[prefix]) prefix++
  let suffix = 0
  const left = most - prefix
  while (
    suffix + STEP <= left &&
    isSame(base, base.length - suffix - STEP, next, next.length - suffix - STEP)
  )
    suffix += STEP
  while (suffix < left && base[base.length - 1 - suffix] === next[next.length - 1 - suffix]) suffix++
  return { prefix, suffix }
}

/** Compared at once: one byte after the other takes a tenth of a second for a long request. */
const STEP = 4096

function isSame(a: Uint8Array, fromA: number, b: Uint8Array, fromB: number): boolean {
  return Buffer.compare(a.subarray(fromA, fromA + STEP), b.subarray(fromB, fromB + STEP)) === 0
}

/** The request that a delta describes. Throws when the delta does not fit its base. */
export function applyDelta(
  base: Uint8Array,
  { prefix, suffix }: RequestDelta,
  middle: Uint8Array,
): Uint8Array {
  if (prefix < 0 || suffix < 0 || prefix + suffix > base.length)
    throw new Error('the delta does not fit its base')
  const whole = new Uint8Array(prefix + middle.length + suffix)
  whole.set(base.subarray(0, prefix), 0)
  whole.set(middle, prefix)
  whole.set(base.subarray(base.length - suffix), prefix + middle.length)
  return whole
}
