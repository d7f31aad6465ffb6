import { Readable, type Transform } from 'node:stream'
import * as zlib from 'node:zlib'
import type { ProtocolName } from '../agent/provider/protocol.ts'
import { REDACTED } from '../core/redact.ts'

/** One request of an agent and its answer, as they pass. Reading it never holds up the agent. */
export interface Exchange {
  /** Null for a model request whose bodies are recorded but not parsed. */
  protocol: ProtocolName | null
  /** The model server, without credentials. */
  upstream: string
  /** The ids that agents send with their requests. */
  sessionId: string | null
  /** The values of headers that carry credentials: a server may repeat them in its answer, and they must not be kept. */
  credentials: readonly string[]
  /** The request's body as text, once it is complete; null when it can't be kept. */
  request: Promise<string | null>
  /** The answer, once it has begun; null when there is none. */
  answer: Promise<Answer | null>
  /** True if the agent cancelled it. */
  isCancelled(): boolean
}

export interface Answer {
  status: number
  /** When it began, in ms: nothing that it asks for can have been done earlier. */
  beganAt: number
  contentType: string
  body: Tapped
}

/** A copy of a passing body, decompressed. */
export interface Tapped {
  /** The body from its beginning, while it arrives. Errors when it can't be kept. */
  stream(): ReadableStream<Uint8Array>
  /** The whole body as text; null when it can't be kept. Never rejects. */
  text: Promise<string | null>
  /** Resolves with false when the agent or the server broke it off. Never rejects. */
  isComplete: Promise<boolean>
}

/** Bodies beyond this size pass, but are not kept. */
export const MAX_KEPT_BYTES = 64 * 1024 * 1024
/** Bodies under way together, of all agents. */
export const MAX_HELD_BYTES = 192 * 1024 * 1024
let held = 0

/** A server that refuses a key may repeat it (G5). */
export function withoutCredentials(text: string, credentials: readonly string[]): string {
  return credentials.reduce((shown, credential) => shown.replaceAll(credential, REDACTED), text)
}

const decoders: Record<string, () => Transform> = {
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  // Node before 22.15 lacks it: such bodies pass, but are not recorded.
  ...('createZstdDecompress' in zlib ? { zstd: zlib.createZstdDecompress } : {}),
}

export interface Tap extends Tapped {
  push(chunk: Buffer): void
  end(isComplete: boolean): void
}

export function createTap(encoding: string | undefined): Tap {
  const decoder = decoderFor(encoding)
  const isComplete = Promise.withResolvers<boolean>()
  const text = Promise.withResolvers<string | null>()
  const pieces: Buffer[] = []
  let state: 'open' | 'ended' | 'dropped' = 'open'
  let changed = Promise.withResolvers<void>()
  let passed = 0
  let kept = 0
  let isWhole = true

  function notify(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }

  function keep(piece: Buffer): void {
    kept += piece.length
    held += piece.length
    if (kept > MAX_KEPT_BYTES || held > MAX_HELD_BYTES) return drop()
    pieces.push(piece)
    notify()
  }

  function release(): void {
    held -= kept
    kept = 0
  }

  function finish(): void {
    if (state !== 'open') return
    state = 'ended'
    text.resolve(asText(pieces, isWhole))
    release()
    notify()
  }

  function drop(): void {
    if (state === 'dropped') return
    state = 'dropped'
    pieces.length = 0
    release()
    decoder?.destroy()
    text.resolve(null)
    notify()
  }

  decoder?.on('data', (piece: Buffer) => state === 'open' && keep(piece))
  decoder?.on('end', finish)
  // A body that breaks off can't be decompressed to its end: what arrived is kept.
  decoder?.on('error', finish)
  if (decoder === undefined) drop()

  async function* read(): AsyncGenerator<Uint8Array> {
    for (let index = 0; ; ) {
      const piece = pieces[index]
      if (state === 'dropped') throw new Error('the body is not kept')
      if (piece) {
        index++
        yield piece
      } else if (state === 'ended') return
      else await changed.promise
    }
  }

  return {
    stream: () => Readable.toWeb(Readable.from(read())) as ReadableStream<Uint8Array>,
    text: text.promise,
    isComplete: isComplete.promise,
    push(chunk) {
      if (state !== 'open') return
      passed += chunk.length
      if (passed > MAX_KEPT_BYTES) return drop()
      if (decoder) decoder.write(chunk)
      else keep(chunk)
    },
    end(isEnd) {
      isWhole = isEnd
      isComplete.resolve(isEnd)
      if (decoder) decoder.end()
      else finish()
    },
  }
}

/** Null for bytes that are no text: nothing that a record could show. */
function asText(pieces: readonly Buffer[], isWhole: boolean): string | null {
  try {
    // A body that broke off may end in the middle of a character.
    return new TextDecoder('utf-8', { fatal: isWhole, ignoreBOM: true }).decode(Buffer.concat(pieces))
  } catch {
    return null
  }
}

/** Null for a body that is not compressed, undefined for one that can't be read. */
function decoderFor(encoding: string | undefined): Transform | null | undefined {
  const name = encoding?.trim().toLowerCase() ?? ''
  if (name === '' || name === 'identity') return null
  return Object.hasOwn(decoders, name) ? decoders[name]?.() : undefined
}
