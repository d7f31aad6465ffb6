import { isId, type SegmentId } from './ids.ts'

/** A place on a line: everything up to and including `seq` of this segment has been read (L7). */
export interface Cursor {
  segmentId: SegmentId
  seq: number
}

export function formatCursor(cursor: Cursor): string {
  return `${cursor.segmentId}.${cursor.seq}`
}

/** Null when the text is not a cursor. */
export function parseCursor(text: string): Cursor | null {
  const dot = text.indexOf('.')
  const segmentId = text.slice(0, dot)
  const seq = text.slice(dot + 1)
  if (dot < 0 || !isId('seg', segmentId) || !/^(0|[1-9]\d{0,15})$/.test(seq)) return null
  return Number.isSafeInteger(Number(seq)) ? { segmentId, seq: Number(seq) } : null
}
