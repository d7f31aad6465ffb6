import { createHash, hash } from 'node:crypto'
import { FRAME_SCHEMA } from '../protocol/frame-kinds.ts'

/** The end of a segment: what the next event is chained to. */
export interface Tip {
  seq: number
  /** Bytes of all frames on the line up to here. */
  bytes: number
  digest: Uint8Array
}

/** A frame's own fields as JSON text, including `kind`, before the ledger has sealed it. */
export interface DraftText {
  kind: string
  text: string
  /** The blob that holds the text when it is too large for a row: the SHA-256 of its UTF-8 bytes. */
  blob: string | null
}

export interface Envelope {
  conversationId: string
  runId: string | null
  sequenceNumber: number | null
  timestamp: string
}

export interface SealedEvent {
  seq: number
  bytesBefore: number
  bytes: number
  /** The frame; only its head when `blob` has the rest. */
  frame: string
  blob: string | null
  digest: Uint8Array
}

export const DIGEST_BYTES = 32

/** The tip that the first event of a root segment is chained to. */
export const genesis: Tip = { seq: 0, bytes: 0, digest: new Uint8Array(DIGEST_BYTES) }

/** Gives a draft its place after `tip`. Readers receive exactly these bytes (L4, L9). */
export function seal(tip: Tip, envelope: Envelope, draft: DraftText): { event: SealedEvent; tip: Tip } {
  const seq = tip.seq + 1
  const head = frameHead(seq, envelope)
  const rest = draft.text.slice(1)
  const frame = head + rest
  const { digest, bytes } = chainDigest(tip.digest, frame)
  return {
    event: {
      seq,
      bytesBefore: tip.bytes,
      bytes,
      frame: draft.blob === null ? frame : head,
      blob: draft.blob,
      digest,
    },
    tip: { seq, bytes: tip.bytes + bytes, digest },
  }
}

function frameHead(seq: number, envelope: Envelope): string {
  const stream = envelope.runId === null ? 'null' : `"${envelope.runId}"`
  return (
    `{"schema":"${FRAME_SCHEMA}","event_id":${seq},"conversation_id":"${envelope.conversationId}",` +
    `"stream_id":${stream},"sequence_number":${envelope.sequenceNumber},"server_timestamp":"${envelope.timestamp}",`
  )
}

/** Reassembles a spilled frame: its head from the row, the rest from the blob's text. */
export function joinSpilled(head: string, blobText: string): string {
  return head + blobText.slice(1)
}

// One buffer for all short frames: hashing digest and frame in one call is twice as fast as two updates.
const scratch = Buffer.allocUnsafe(64 * 1024)

/** `sha256(previous digest ‖ frame bytes)`, and the number of frame bytes. */
export function chainDigest(previous: Uint8Array, frame: string): { digest: Uint8Array; bytes: number } {
  if (frame.length * 3 > scratch.length - DIGEST_BYTES) {
    const body = Buffer.from(frame)
    return { digest: createHash('sha256').update(previous).update(body).digest(), bytes: body.length }
  }
  scratch.set(previous)
  const bytes = scratch.write(frame, DIGEST_BYTES)
  return { digest: hash('sha256', scratch.subarray(0, DIGEST_BYTES + bytes), 'buffer'), bytes }
}
