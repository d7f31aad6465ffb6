import type { Generated } from 'kysely'
import type { BranchRow, MessageRow, TitleRow } from '../../core/projection.ts'

/** The tables, the same on both engines. Times are ISO text, flags and counts are integers. */
export interface Schema {
  conversations: {
    id: string
    tenant_id: string
    head_segment: number
    workspace_id: string | null
    parent_conversation_id: string | null
    parent_event_number: number | null
    settings: string
    created_at: string
    /** When something was last said, done or renamed; not every word of an answer counts. */
    updated_at: string
    deleted_at: string | null
    deleted_by: string | null
  }
  segments: {
    no: Generated<number>
    id: string
    conversation_id: string
    parent: number | null
    /** The parent's last event on this segment's line; 0 for a root. */
    cut: number
    created_at: string
  }
  /** Segments whose projections a rebuild has not caught up with yet; usually none. */
  unprojected: {
    segment: number
    projected_seq: number
  }
  events: {
    segment: number
    seq: number
    /** Bytes of all frames before this one on the line: lets a page stop at a size without reading the rest. */
    bytes_before: number
    /** Of this frame. */
    bytes: number
    frame: string
    blob: string | null
    digest: Uint8Array
  }
  runs: {
    id: string
    conversation_id: string
    segment: number
    epoch: number
    frames: number
    ended: number
  }
  messages: MessageRow
  titles: TitleRow
  branches: BranchRow
  tokens: {
    hash: string
    id: string
    tenant_id: string
    name: string
    scopes: string
    created_at: string
    expires_at: string | null
    parent_id: string | null
  }
  idempotency: {
    tenant_id: string
    key: string
    fingerprint: string
    response: string
    created_at: string
  }
}

export type Table = keyof Schema

/** Postgres's array types for the columns that are written in bulk. */
export const bulkTypes = {
  events: {
    segment: 'bigint',
    seq: 'bigint',
    bytes_before: 'bigint',
    bytes: 'bigint',
    frame: 'text',
    blob: 'text',
    digest: 'bytea',
  },
  runs: {
    id: 'text',
    conversation_id: 'text',
    segment: 'bigint',
    epoch: 'bigint',
    frames: 'bigint',
    ended: 'bigint',
  },
  messages: {
    segment: 'bigint',
    seq: 'bigint',
    message_id: 'text',
    role: 'text',
    run_id: 'text',
    conversation_id: 'text',
    checkpoint_id: 'text',
    created_at: 'text',
    search_text: 'text',
  },
  titles: { segment: 'bigint', seq: 'bigint', title: 'text', search_text: 'text' },
  branches: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    parent_conversation_id: 'text',
    from_event_number: 'bigint',
    created_at: 'text',
  },
} as const satisfies { [T in Table]?: Record<keyof Schema[T], string> }

export type BulkTable = keyof typeof bulkTypes
