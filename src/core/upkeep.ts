import type { ProjectionRows } from './projection.ts'

/** The store as it is, across tenants and including what no line shows: for verifying and rebuilding. */
export interface Upkeep {
  segments(options?: { onlyUnprojected?: boolean }): AsyncIterable<SegmentRecord>
  /** The segment's events after `after`, up to and including `to`. */
  events(segment: number, after: number, to: number): AsyncIterable<EventRecord>
  /** The runs that write to this segment and its last event, as they are at one moment. */
  books(segment: number): Promise<{ runs: RunRecord[]; seq: number }>
  dropProjections(): Promise<void>
  /** Projects the next events of a segment; answers how many, and whether it has come to the end. */
  project(segment: SegmentRecord): Promise<{ projected: number; isDone: boolean }>
  projections(): Promise<ProjectionRows>
  /** Everything that is stored under its hash beside the frames: blobs, and blocks of requests. */
  contents(): AsyncIterable<StoredContent>
}

export interface StoredContent {
  /** SHA-256 of the content, which names it. */
  key: string
  /** Null when it is whole; otherwise what is wrong with it. */
  flaw: string | null
}

export interface SegmentRecord {
  segment: number
  segmentId: string
  conversationId: string
  parent: number | null
  cut: number
  /** How far a rebuild has come; null when there is none under way. */
  projectedSeq: number | null
  /** The last event it had before the collector took those that no line reaches; null while it has all. */
  collectedTo: number | null
  /** The digest its first event is chained to; null when the parent's event is not there. */
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
  /** The whole frame, or why it can't be had. */
  frame: string | Error
}
