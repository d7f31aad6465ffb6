import type { Readable } from 'node:stream'
import type { ImportReport } from '../protocol/api/transfer.ts'
import type { ConversationId, RunId, SegmentId } from '../protocol/ids.ts'

/** A conversation's whole family as it leaves one store and enters another. */

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
  /** It is only there because others were forked from it. */
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
  /** The frame; of one in a blob, only its head. */
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

/** What a store can give of a family. */
export interface FamilySource {
  family(tenant: string, id: ConversationId): Promise<ExportedFamily>
  events(segment: ExportedSegment): AsyncIterable<ExportedEvent>
  /** Rows that belong together, in groups; a row refers only to groups before its own. */
  rows(segment: ExportedSegment): AsyncIterable<ExportedRow[]>
  /** Blobs and checkpoints that the segment's events name, besides those in the events' own rows. */
  names(segment: ExportedSegment): Promise<{ blobs: string[]; checkpoints: string[] }>
}

/** What a store has of a family already. */
export interface KnownFamily {
  conversations: { id: string; tenant: string; state: 'living' | 'deleted' | 'importing' }[]
  /** The digest of the exported segment's last event here; null when the segment does not reach so far. */
  segments: { id: string; digest: string | null }[]
}

/** Where a family enters. It stays hidden until `finish`; the next attempt removes what a crash left. */
export interface FamilyTarget {
  /** Removes what an import of these that did not finish has left. */
  abort(tenant: string, ids: readonly ConversationId[]): Promise<void>
  known(family: ExportedFamily): Promise<KnownFamily>
  begin(command: ImportCommand): Promise<void>
  /** In the order of their numbers. Checks each frame against its place and the chain. */
  putEvents(command: { segment: ExportedSegment; events: readonly ImportedEvent[] }): Promise<void>
  putRows(command: { family: ImportedPlaces; rows: readonly ExportedRow[] }): Promise<void>
  finish(command: ImportCommand & { by: string }): Promise<void>
}

export interface ImportCommand {
  tenant: string
  family: ExportedFamily
  /** Where each conversation's files are here. */
  workspaces: Readonly<Record<string, string | null>>
}

export interface ImportedEvent extends ExportedEvent {
  /** The whole frame. */
  text: string
}

/** What rows may refer to: nothing that was not in the same file. */
export interface ImportedPlaces {
  segments: readonly ExportedSegment[]
  runs: readonly RunId[]
}

export interface Exports {
  /** The whole family as one archive, streamed. Fails before the first byte where it is not possible. */
  open(tenant: string, id: ConversationId): Promise<Readable>
}

export interface Imports {
  /** Takes in a file that an export wrote. It may come from anywhere: everything in it is checked first. */
  run(command: { tenant: string; by: string; file: string }): Promise<ImportReport>
}

export type ImportPlan = { ids: ConversationId[] } | { conflict: string }

/**
 * Which conversations of the file are to be imported. One that is here already, with all that the file has of it, is left as it
 * is, however far it has gone on since.
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
    if (found.state === 'deleted' && !is_deleted) return { conflict: `${id} was deleted here` }
    const other = family.segments.find(
      (segment) => segment.conversation_id === id && digests.get(segment.id) !== segment.digest,
    )
    if (other) {
      const why = digests.get(other.id) == null ? 'the file has more of it' : 'the two have diverged'
      return { conflict: `${id} is here with another history (${why})` }
    }
  }
  return { ids }
}
