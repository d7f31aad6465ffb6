import type { ProjectionRows } from './projection.ts'

/** Raw access to the store, across tenants and including events on no line: for verifying and rebuilding. */
export interface Upkeep {
  segments(options?: { onlyUnprojected?: boolean }): AsyncIterable<SegmentRecord>
  /** The segment's events after `after`, up to and including `to`. */
  events(segment: number, after: number, to: number): AsyncIterable<EventRecord>
  /** The runs that write to this segment, and its last event, read at one moment. */
  books(segment: number): Promise<{ runs: RunRecord[]; seq: number }>
  dropProjections(): Promise<void>
  /** Projects the next events of a segment; returns how many, and whether it has reached the end. */
  project(segment: SegmentRecord): Promise<{ projected: number; isDone: boolean }>
  projections(): Promise<ProjectionRows>
  /** All content stored under its hash besides the frames: blobs, and blocks of requests. */
  contents(): AsyncIterable<StoredContent>
}

export interface StoredContent {
  /** SHA-256 of the content. */
  key: string
  /** Null when it is intact; otherwise what is wrong with it. */
  flaw: string | null
}

export interface SegmentRecord {
  segment: number
  segmentId: string
  conversationId: string
  parent: number | null
  cut: number
  /** How far a rebuild has progressed; null when none is running. */
  projectedSeq: number | null
  /** The last event before the collector removed unreachable ones; null while the segment is complete. */
  collectedTo: number | null
  /** The digest that its first event is chained to; null when the parent's event is missing. */
  parentDigest: Uint8Array | null
}

export interface RunRecord {
  id: string
  frames: number
  ended: boolean
}

export interface EventRecord {
  seq: number
  bytesBefore: number
  digest: Uint8Array
  /** The whole frame, or why it can't be read. */
  frame: string | Error
}
