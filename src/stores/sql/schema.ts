import type { Generated } from 'kysely'
import type {
  ActivityRow,
  AgentCheckpointRow,
  AttachmentRow,
  BranchRow,
  CheckpointRow,
  FileEditRow,
  MemoryRow,
  MessageRow,
  SearchedRow,
  SessionClosingRow,
  TitleRow,
  ToolOutputRow,
} from '../../core/projection.ts'

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
    /** Time of the last message, action or rename; streamed text doesn't count. */
    updated_at: string
    deleted_at: string | null
    deleted_by: string | null
    /** 1 once its deletion is older than the retention time and can't be undone. */
    is_expired: Generated<number>
  }
  segments: {
    no: Generated<number>
    id: string
    conversation_id: string
    parent: number | null
    /** The parent's last event on this segment's line; 0 for a root. */
    cut: number
    created_at: string
    /** The last event it had before the collector removed unreachable ones; null while it is complete. */
    collected_to: Generated<number | null>
  }
  /** Segments that a rebuild has not fully projected yet; usually none. */
  unprojected: {
    segment: number
    projected_seq: number
  }
  events: {
    segment: number
    seq: number
    /** Bytes of all frames before this one on the line: lets a page stop at a size without reading the rest. */
    bytes_before: number
    /** Bytes of this frame. */
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
  /** Accepted messages whose runs have not ended: one row per run, deleted with its terminal frame. */
  queue: {
    place: Generated<number>
    run_id: string
    conversation_id: string
    tenant_id: string
    workspace_id: string | null
    message_id: string
    content: string
    /** Attachments, active files and options sent with the message, as JSON. */
    extras: Generated<string | null>
    may_change_files: number
    state: 'waiting' | 'active'
    worker: string | null
    /** When the worker's lease ends, in milliseconds by the database's clock. */
    lease_until: number | null
    /** The person who requested the stop. */
    cancelled_by: string | null
    created_at: string
    started_at: string | null
  }
  /** Questions of active runs, with their answers. */
  asks: {
    run_id: string
    tool_call_id: string
    approved: number | null
    reason: string | null
    answered_by: string | null
    /** The whole question, as JSON. */
    question: string | null
    /** Grants given with an approval, as JSON. */
    grants: string | null
  }
  /** Calls that are allowed without asking. */
  rules: {
    id: string
    tenant_id: string
    workspace_id: string
    tool_name: string
    subject: string
    subject_sha256: string
    grants: string
    made_by: string
    created_at: string
  }
  agent_states: {
    thread_id: string
    namespace: string
    id: string
    parent_id: string | null
    /** JSON: for each channel, the thread and state that its value was stored with. */
    value_places: string
    state_type: string
    state: Uint8Array
    metadata_type: string
    metadata: Uint8Array
  }
  agent_values: {
    thread_id: string
    namespace: string
    state_id: string
    channel: string
    value_type: string
    value: Uint8Array
  }
  agent_writes: {
    thread_id: string
    namespace: string
    state_id: string
    task_id: string
    idx: number
    channel: string
    value_type: string
    value: Uint8Array
  }
  messages: MessageRow
  titles: TitleRow
  branches: BranchRow
  agent_checkpoints: AgentCheckpointRow
  tool_outputs: ToolOutputRow
  checkpoints: CheckpointRow
  session_closings: SessionClosingRow
  file_edits: FileEditRow
  memories: MemoryRow
  attachments: AttachmentRow
  searched: SearchedRow
  activity: ActivityRow
  /** One row per workspace, used as its lock; during a restore or reset it describes the change. */
  workspaces: {
    id: string
    change_id: string | null
    /** JSON. */
    change_details: string | null
    /** JSON; a change that could be neither finished nor rolled back. */
    failed_change: Generated<string | null>
  }
  /** Lines that conversations have left, by a deletion or by undoing one; each can be restored until it expires. */
  left_lines: {
    no: Generated<number>
    conversation_id: string
    /** Where the line ended. */
    segment: number
    seq: number
    /** The message that was deleted; null when a deletion was undone. */
    message_id: string | null
    cut_after: number | null
    checkpoint_id: string | null
    left_at: string
    is_expired: number
  }
  /** Requests to the model, stored before they are sent. */
  responses: {
    id: string
    conversation_id: string
    /** Its place on the line: after this event. */
    segment: number
    seq: number
    run_id: string
    created_at: string
    /** JSON. */
    details: string
    /** Empty when the request is in a blob or in blocks. */
    request: string
    request_blob: string | null
    /** JSON: the hashes of its blocks. */
    request_blocks: Generated<string | null>
  }
  /** Pieces of long requests, each stored once. */
  request_blocks: {
    hash: string
    bytes: Uint8Array
    /** Number of uses; a request that contains the block twice counts twice. */
    uses: number
  }
  /** Older history entries; each chunk names the previous one. */
  entry_chunks: {
    id: string
    parent: string | null
    bytes: Uint8Array
  }
  /** Outcomes of the requests in `responses`. */
  response_ends: {
    id: string
    segment: number
    seq: number
    ended_at: string
    details: string
    response: string
    response_blob: string | null
  }
  /** Indexed files, by workspace or attachment. */
  index_files: {
    scope: string
    path: string
    sha256: string
    language: string | null
  }
  index_chunks: {
    no: Generated<number>
    scope: string
    path: string
    id: string
    start_line: number
    end_line: number
    content: string
    /** The embedder that computed the vector. */
    embedder: string | null
    /** 32-bit floats, little-endian. */
    vector: Uint8Array | null
  }
  /** A full-text table on SQLite, a table with a tsvector column on Postgres. */
  index_words: {
    rowid: number
    words: string
  }
  /** Who did what and when, such as deletions: names and numbers, never message text. */
  audit: {
    no: Generated<number>
    at: string
    tenant_id: string | null
    by_whom: string
    action: string
    conversation_id: string | null
    /** JSON. */
    details: string
  }
  /** What people have changed, to undo and redo it. */
  operations: {
    no: Generated<number>
    tenant_id: string
    conversation_id: string
    at: string
    by_whom: string
    kind: string
    /** JSON. */
    details: string
    /** In milliseconds; 0 if it is not undone. */
    undone_at: number
  }
  counters: {
    name: string
    value: number
  }
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

/** Values of `runs.ended`. An abandoned run has no terminal frame and never gets one. */
export const RUNNING = 0
export const ENDED = 1
export const ABANDONED = 2

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
  agent_checkpoints: { segment: 'bigint', seq: 'bigint', checkpoint_id: 'text', message_id: 'text' },
  tool_outputs: { segment: 'bigint', seq: 'bigint', tool_call_id: 'text', output_ref: 'text' },
  checkpoints: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    run_id: 'text',
    checkpoint_id: 'text',
    work_session: 'text',
    label: 'text',
    files: 'bigint',
    changed: 'bigint',
    excluded: 'bigint',
    number: 'bigint',
    created_at: 'text',
  },
  session_closings: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    work_session: 'text',
    status: 'text',
    checkpoint_id: 'text',
    next_session: 'text',
    created_at: 'text',
  },
  file_edits: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    run_id: 'text',
    tool_call_id: 'text',
    path: 'text',
    change: 'text',
    additions: 'bigint',
    deletions: 'bigint',
    diff: 'bytea',
    created_at: 'text',
    previous_checkpoint: 'text',
  },
  attachments: {
    segment: 'bigint',
    seq: 'bigint',
    place: 'bigint',
    name: 'text',
    sha256: 'text',
    bytes: 'bigint',
  },
  searched: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    kind: 'text',
    tool: 'text',
    path: 'text',
    created_at: 'text',
    words: 'text',
  },
  activity: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    run_id: 'text',
    kind: 'text',
    name: 'text',
    detail: 'text',
    status: 'text',
    input_tokens: 'bigint',
    output_tokens: 'bigint',
    cached_tokens: 'bigint',
    created_at: 'text',
  },
  memories: {
    segment: 'bigint',
    seq: 'bigint',
    conversation_id: 'text',
    summary_ref: 'text',
    details: 'text',
    created_at: 'text',
  },
  responses: {
    id: 'text',
    conversation_id: 'text',
    segment: 'bigint',
    seq: 'bigint',
    run_id: 'text',
    created_at: 'text',
    details: 'text',
    request: 'text',
    request_blob: 'text',
    request_blocks: 'text',
  },
  response_ends: {
    id: 'text',
    segment: 'bigint',
    seq: 'bigint',
    ended_at: 'text',
    details: 'text',
    response: 'text',
    response_blob: 'text',
  },
  agent_states: {
    thread_id: 'text',
    namespace: 'text',
    id: 'text',
    parent_id: 'text',
    value_places: 'text',
    state_type: 'text',
    state: 'bytea',
    metadata_type: 'text',
    metadata: 'bytea',
  },
  agent_values: {
    thread_id: 'text',
    namespace: 'text',
    state_id: 'text',
    channel: 'text',
    value_type: 'text',
    value: 'bytea',
  },
  agent_writes: {
    thread_id: 'text',
    namespace: 'text',
    state_id: 'text',
    task_id: 'text',
    idx: 'bigint',
    channel: 'text',
    value_type: 'text',
    value: 'bytea',
  },
  entry_chunks: { id: 'text', parent: 'text', bytes: 'bytea' },
} as const satisfies { [T in Table]?: Record<keyof Schema[T], string> }

export type BulkTable = keyof typeof bulkTypes
