import { createParser, type EventSourceMessage } from 'eventsource-parser'

/** Silence for this long, without even a heartbeat, means that the connection is dead. */
const SILENCE_MS = 45_000

/** Yields the events of a response in the batches in which they arrive. */
export async function* readEventStream(
  response: Response,
  silenceMs: number = SILENCE_MS,
): AsyncGenerator<EventSourceMessage[]> {
  if (!response.body) return
  let lot: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => lot.push(event) })
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { done, value } = await withinTime(reader.read(), silenceMs)
      if (done) return
      parser.feed(decoder.decode(value, { stream: true }))
      if (lot.length > 0) yield lot
      lot = []
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

async function withinTime<T>(promise: Promise<T>, milliseconds: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the server stopped responding')), milliseconds)
  })
  try {
    return await Promise.race([promise, silence])
  } finally {
    clearTimeout(timer)
  }
}
