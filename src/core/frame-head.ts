/** Reads the head of a stored frame, whose fields come first and in a fixed order; a spilled frame's row has only its head. */
const HEAD = /^\{"schema":"[^"]*","event_id":\d+,"conversation_id":"[^"]*","stream_id":"([^"]+)"/

/** The run that a frame belongs to; null when it belongs to none. */
export function runIdOf(frame: string): string | null {
  return HEAD.exec(frame)?.[1] ?? null
}
