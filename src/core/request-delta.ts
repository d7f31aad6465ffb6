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
  while (prefix < most && base[prefix] === next[prefix]) prefix++
  let suffix = 0
  while (suffix < most - prefix && base[base.length - 1 - suffix] === next[next.length - 1 - suffix]) suffix++
  return { prefix, suffix }
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
