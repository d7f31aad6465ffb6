export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }

let lastMilliseconds = Number.NaN
let lastText = ''

/** ISO with milliseconds. Frames come many to a millisecond, so the last text is kept. */
export function timestamp(milliseconds: number): string {
  if (milliseconds !== lastMilliseconds) {
    lastText = new Date(milliseconds).toISOString()
    lastMilliseconds = milliseconds
  }
  return lastText
}
