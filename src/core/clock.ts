export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
}

let lastMilliseconds = Number.NaN
let lastText = ''

/** ISO with milliseconds. Caches the last text, because many frames share a millisecond. */
export function timestamp(milliseconds: number): string {
  if (milliseconds !== lastMilliseconds) {
    lastText = new Date(milliseconds).toISOString()
    lastMilliseconds = milliseconds
  }
  return lastText
}
