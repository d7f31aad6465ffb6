import { StringDecoder } from 'node:string_decoder'

/** Output is shown in pieces, not byte by byte. */
const SHOW_EVERY_MS = 100
const PIECE_CHARACTERS = 4000
/** The output shown while a command runs; the rest is in its outcome. */
const MAX_SHOWN = 64 * 1024
/** The number of characters kept from the beginning, and from the end. */
const MAX_KEPT = 512 * 1024

export interface OutputBuffer {
  push(chunk: Buffer): void
  /** Returns all output; if there is too much, its beginning and its end. */
  end(): string
}

export function createOutputBuffer(show: (text: string) => void): OutputBuffer {
  const decoder = new StringDecoder('utf8')
  let head = ''
  let tail = ''
  let dropped = 0
  let unshown = ''
  let shown = 0
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    for (; unshown !== '' && shown < MAX_SHOWN; shown += PIECE_CHARACTERS) {
      show(unshown.slice(0, PIECE_CHARACTERS))
      unshown = unshown.slice(PIECE_CHARACTERS)
    }
    if (shown >= MAX_SHOWN) unshown = ''
  }

  function take(text: string): void {
    if (text === '') return
    keep(text)
    if (shown >= MAX_SHOWN) return
    unshown += text
    timer ??= setTimeout(flush, SHOW_EVERY_MS)
  }

  function keep(text: string): void {
    const room = MAX_KEPT - head.length
    head += text.slice(0, room)
    tail += text.slice(room)
    if (tail.length <= MAX_KEPT * 2) return
    dropped += tail.length - MAX_KEPT
    tail = tail.slice(-MAX_KEPT)
  }

  return {
    push: (chunk) => take(decoder.write(chunk)),
    end() {
      take(decoder.end())
      clearTimeout(timer)
      const over = Math.max(0, tail.length - MAX_KEPT)
      const left = dropped + over
      return head + (left > 0 ? `\n[${left} characters omitted]\n` : '') + tail.slice(over)
    },
  }
}
