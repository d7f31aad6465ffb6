import type { Readable } from 'node:stream'
import type { ImportProgress, ImportReport } from '../protocol/api/transfer.ts'
import type { ConversationId, SegmentId } from '../protocol/ids.ts'

/** A conversation's whole family, as exported from one store and imported into another. */

export interface ExportedConversation {
  id: ConversationId
  /** The segment that its line ends in. */
  head: SegmentId
  workspace_id: string | null
  parent_conversation_id: ConversationId | null
  parent_event_number: number | null
  /** JSON. */
  settings: string
  created_at: string
  updated_at: string
  /** True for a deleted conversation that is only included because others were forked from it. */
  is_deleted: boolean
}

export interface ExportedSegment {
  id: SegmentId
  conversation_id: ConversationId
  parent: SegmentId | null
  cut: number
  created_at: string
  /** The last event that a line of the family reaches. */
  upto: number
  /** The chained digest of that event, in hex. */
  digest: string
}

export interface ExportedFamily {
  conversations: ExportedConversation[]
  /** Parents before their children. */
  segments: ExportedSegment[]
}

export interface ExportedEvent {
  seq: number
  /** The frame; only its head if the rest is in a blob. */
  frame: string
  blob: string | null
}

/** Rows of the ledger besides events, by table; bytes are base64. */
export type ExportedRow =
  | { table: 'responses'; row: ExportedResponse }
  | { table: 'response_ends'; row: ExportedResponseEnd }
  | { table: 'request_blocks'; row: { hash: string; bytes: string } }
  | { table: 'agent_states'; row: ExportedState }
  | { table: 'agent_values'; row: ExportedStateValue }
  | { table: 'agent_writes'; row: ExportedStateWrite }
  | { table: 'entry_chunks'; row: { id: string; parent: string | null; bytes: string } }

export interface ExportedResponse {
  id: string
  conversation_id: string
  segment: SegmentId
  seq: number
  run_id: string
  created_at: string
  details: string
  request: string
  request_blob: string | null
  request_blocks: string | null
}

export interface ExportedResponseEnd {
  id: string
  segment: SegmentId
  seq: number
  ended_at: string
  details: string
  response: string
  response_blob: string | null
}

export interface ExportedState {
  thread_id: string
  namespace: string
  id: string
  parent_id: string | null
  value_places: string
  state_type: string
  state: string
  metadata_type: string
  metadata: string
}

export interface ExportedStateValue {
  thread_id: string
  namespace: string
  state_id: string
  channel: string
  value_type: string
  value: string
}

export interface ExportedStateWrite extends ExportedStateValue {
  task_id: string
  idx: number
}

/** Reads a family from a store for export. */
export interface FamilySource {
  family(tenant: string, id: ConversationId): Promise<ExportedFamily>
  events(segment: ExportedSegment): AsyncIterable<ExportedEvent>
  /** Rows in groups that belong together; a row only refers to earlier groups. */
  rows(segment: ExportedSegment): AsyncIterable<ExportedRow[]>
  /** Blobs and checkpoints that the segment's events name, except those in the events' own rows. */
  names(segment: ExportedSegment): Promise<{ blobs: string[]; checkpoints: string[] }>
}

/** The parts of a family that a store already has. */
export interface KnownFamily {
  conversations: { id: string; tenant: string; state: 'living' | 'deleted' | 'importing' }[]
  /** This store's digest at the exported segment's last event; null when the segment does not reach that far. */
  segments: { id: string; digest: string | null }[]
}

/** Imports a family into a store. It stays hidden until `finish`; the next attempt removes what a crash left. */
export interface FamilyTarget {
  /** Removes what an unfinished import of these conversations left. */
  abort(tenant: string, ids: readonly ConversationId[]): Promise<void>
  known(family: ExportedFamily): Promise<KnownFamily>
  begin(command: ImportCommand): Promise<void>
  /** In order of their numbers. Verifies each frame's position and its link in the digest chain. */
  putEvents(command: { segment: ExportedSegment; events: readonly ImportedEvent[] }): Promise<void>
  putRows(rows: readonly ExportedRow[]): Promise<void>
  finish(command: ImportCommand & { by: string }): Promise<void>
}

export interface ImportCommand {
  tenant: string
  family: ExportedFamily
  /** The workspace of each conversation's files on this server. */
  workspaces: Readonly<Record<string, string | null>>
}

export interface ImportedEvent extends ExportedEvent {
  /** The whole frame. */
  text: string
}

export interface Exports {
  /** Streams the whole family as one archive. If that is impossible, fails before the first byte. */
  open(tenant: string, id: ConversationId): Promise<Readable>
}

export interface Imports {
  /** Imports a file that an export wrote. The file is untrusted: everything in it is verified first. */
  run(command: {
    tenant: string
    by: string
    file: string
    onProgress?(progress: ImportProgress): void
  }): Promise<ImportReport>
}

export type ImportPlan = { ids: ConversationId[] } | { conflict: string }

/**
 * Selects the conversations of the file to import. A conversation that already exists, with everything the file has of
 * it, is left unchanged even if it has grown since.
 */
export function planImport(tenant: string, family: ExportedFamily, known: KnownFamily): ImportPlan {
  const here = new Map(known.conversations.map((one) => [one.id, one]))
  const digests = new Map(known.segments.map((one) => [one.id, one.digest]))
  const ids: ConversationId[] = []
  for (const { id, is_deleted } of family.conversations) {
    const found = here.get(id)
    if (!found || found.state === 'importing') {
      if (found && found.tenant !== tenant) return { conflict: `${id} is being imported for another tenant` }
      ids.push(id)
      continue
    }
    if (found.tenant !== tenant) return { conflict: `${id} belongs to another tenant` }
    if (found.state === 'deleted' && !is_deleted) return { conflict: `${id} was deleted on this server` }
    const other = family.segments.find(
      (segment) => segment.conversation_id === id && digests.get(segment.id) !== segment.digest,
    )
    if (other) {
      const why = digests.get(other.id) == null ? 'the file has more events' : 'the two have diverged'
      return { conflict: `${id} already exists with another history (${why})` }
    }
  }
  return { ids }
}
