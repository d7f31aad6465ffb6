import { gzipSync } from 'node:zlib'
import type { FrameKind } from '../protocol/frame-kinds.ts'
import { activityOf, isActivity, noActivity } from './activity.ts'
import { indexedWords, isSearched, type SearchedKind, searchedTextOf } from './search.ts'

/**
 * Projections are read models that can be rebuilt from the ledger. Each row is keyed by the event it comes from, so
 * rows follow their segment through forks, cuts and undone cuts without rules of their own.
 */
export interface ProjectedPlace {
  segment: number
  seq: number
  conversationId: string
  runId: string | null
  timestamp: string
}

export interface ProjectionRows {
  messages: MessageRow[]
  titles: TitleRow[]
  branches: BranchRow[]
  agent_checkpoints: AgentCheckpointRow[]
  tool_outputs: ToolOutputRow[]
  checkpoints: CheckpointRow[]
  session_closings: SessionClosingRow[]
  file_edits: FileEditRow[]
  memories: MemoryRow[]
  attachments: AttachmentRow[]
  searched: SearchedRow[]
  activity: ActivityRow[]
}

export interface MessageRow {
  segment: number
  seq: number
  message_id: string
  role: 'user' | 'assistant'
  run_id: string | null
  conversation_id: string
  checkpoint_id: string | null
  created_at: string
  /** The content in lower case, for searching. The content itself stays in the frame. */
  search_text: string
}

export interface TitleRow {
  segment: number
  seq: number
  title: string
  search_text: string
}

export interface BranchRow {
  segment: number
  seq: number
  conversation_id: string
  parent_conversation_id: string
  from_event_number: number
  created_at: string
}

/** The agent state that belongs to a message. */
export interface AgentCheckpointRow {
  segment: number
  seq: number
  checkpoint_id: string
  message_id: string
}

/** The event with a tool call's outcome. */
export interface ToolOutputRow {
  segment: number
  seq: number
  tool_call_id: string
  /** The blob with the full output, when the frame holds only the beginning. */
  output_ref: string | null
}

/** A checkpoint of the files, and its branch. */
export interface CheckpointRow {
  segment: number
  seq: number
  conversation_id: string
  run_id: string | null
  checkpoint_id: string
  work_session: string
  label: string
  files: number
  changed: number
  excluded: number
  /** Counts a conversation's checkpoints; clocks can't tell which is the last. */
  number: number
  created_at: string
}

/** How a work session ended, and the session after it. */
export interface SessionClosingRow {
  segment: number
  seq: number
  conversation_id: string
  work_session: string
  status: 'merged' | 'abandoned'
  /** The checkpoint that the next session starts with. */
  checkpoint_id: string
  next_session: string
  created_at: string
}

/** A text attached to a message. */
export interface AttachmentRow {
  segment: number
  seq: number
  /** Its index among the message's attachments. */
  place: number
  name: string
  sha256: string
  bytes: number
}

/** An event that a search can find. */
export interface SearchedRow {
  segment: number
  seq: number
  conversation_id: string
  kind: SearchedKind
  tool: string | null
  path: string | null
  created_at: string
  words: string
}

/** What a run did, for statistics: the start and the end of a call, the agent and its model, the run's end. */
export interface ActivityRow {
  segment: number
  seq: number
  conversation_id: string
  run_id: string | null
  kind: 'call' | 'agent' | 'end'
  /** The tool or the agent. */
  name: string
  /** The call or the model. */
  detail: string | null
  status: string
  input_tokens: number
  output_tokens: number
  cached_tokens: number
  created_at: string
}

/** An event that shortened the model's memory, or restored it. */
export interface MemoryRow {
  segment: number
  seq: number
  conversation_id: string
  /** The blob with the summary. */
  summary_ref: string | null
  /** The frame's `checkpoint` field, as JSON. */
  details: string
  created_at: string
}

/** A change that a tool made to a file. */
export interface FileEditRow {
  segment: number
  seq: number
  conversation_id: string
  run_id: string | null
  tool_call_id: string | null
  path: string
  change: string
  additions: number
  deletions: number
  /** Compressed. */
  diff: Uint8Array | null
  created_at: string
  previous_checkpoint: string | null
}

export const projectionTables = [
  'messages',
  'titles',
  'branches',
  'agent_checkpoints',
  'tool_outputs',
  'checkpoints',
  'session_closings',
  'file_edits',
  'memories',
  'attachments',
  'searched',
  'activity',
] as const

const SEARCHED_CHARACTERS = 65_536

type Projector = (rows: ProjectionRows, place: ProjectedPlace, fields: Record<string, unknown>) => void

const projectors: Partial<Record<FrameKind, Projector>> = {
  'conversation.created': projectTitle,
  'conversation.retitled': projectTitle,
  'conversation.forked': (rows, { segment, seq, conversationId, timestamp }, fields) => {
    rows.branches.push({
      segment,
      seq,
      conversation_id: conversationId,
      parent_conversation_id: String(fields.parent_conversation_id),
      from_event_number: Number(fields.from_event_number),
      created_at: timestamp,
    })
  },
  'message.user': (rows, place, fields) => {
    rows.messages.push(
      messageRow(place, {
        message_id: String(fields.message_id).replaceAll('\u0000', ''),
        role: 'user',
        content: String(fields.content),
        checkpoint_id: typeof fields.checkpoint_id === 'string' ? fields.checkpoint_id : null,
      }),
    )
    const attached = (fields.attachments ?? []) as { name: unknown; sha256: unknown; bytes: unknown }[]
    for (const [index, { name, sha256, bytes }] of attached.entries()) {
      const { segment, seq } = place
      const text = { name: storable(name), sha256: storable(sha256), bytes: Number(bytes) }
      rows.attachments.push({ segment, seq, place: index, ...text })
    }
  },
  final: (rows, place, fields) => {
    const final = fields.final as { response_text?: string }
    // An answer has no id of its own. Each run has one answer, so the run's id identifies it.
    const message_id = place.runId ?? `event_${place.seq}`
    const content = final.response_text ?? ''
    rows.messages.push(messageRow(place, { message_id, role: 'assistant', content, checkpoint_id: null }))
  },
  'agent.checkpoint': (rows, { segment, seq }, fields) => {
    rows.agent_checkpoints.push({
      segment,
      seq,
      checkpoint_id: String(fields.checkpoint_id),
      message_id: String(fields.message_id),
    })
  },
  'tool.output': (rows, { segment, seq }, fields) => {
    if (fields.partial === true) return
    const output_ref = typeof fields.output_ref === 'string' ? storable(fields.output_ref) : null
    rows.tool_outputs.push({ segment, seq, tool_call_id: storable(fields.tool_call_id), output_ref })
  },
  'workspace.checkpoint': (rows, place, fields) => {
    rows.checkpoints.push({
      ...placeColumns(place),
      run_id: place.runId,
      checkpoint_id: String(fields.checkpoint_id),
      work_session: String(fields.work_session),
      label: storable(fields.label),
      files: Number(fields.files),
      changed: Number(fields.changed),
      excluded: Number(fields.excluded),
      number: Number(fields.number ?? 0),
    })
  },
  'session.approved': (rows, place, fields) => {
    rows.session_closings.push(closing(place, fields, 'merged', fields.approved_commit))
  },
  'session.reset': (rows, place, fields) => {
    rows.session_closings.push(closing(place, fields, 'abandoned', fields.reset_to))
  },
  'memory.checkpoint': (rows, place, fields) => {
    const checkpoint = fields.checkpoint as { summary_ref?: unknown }
    rows.memories.push({
      ...placeColumns(place),
      summary_ref: typeof checkpoint.summary_ref === 'string' ? storable(checkpoint.summary_ref) : null,
      details: storable(JSON.stringify(checkpoint)),
    })
  },
  'file.edit': (rows, place, fields) => {
    rows.file_edits.push({
      ...placeColumns(place),
      run_id: place.runId,
      tool_call_id: typeof fields.tool_call_id === 'string' ? storable(fields.tool_call_id) : null,
      path: storable(fields.path),
      change: String(fields.change),
      additions: Number(fields.additions),
      deletions: Number(fields.deletions),
      diff: typeof fields.diff === 'string' ? gzipSync(fields.diff) : null,
      previous_checkpoint:
        typeof fields.previous_checkpoint === 'string' ? storable(fields.previous_checkpoint) : null,
    })
  },
}

export function isProjected(kind: string): boolean {
  return Object.hasOwn(projectors, kind) || isSearched(kind) || isActivity(kind)
}

export function emptyRows(): ProjectionRows {
  return {
    messages: [],
    titles: [],
    branches: [],
    agent_checkpoints: [],
    tool_outputs: [],
    checkpoints: [],
    session_closings: [],
    file_edits: [],
    memories: [],
    attachments: [],
    searched: [],
    activity: [],
  }
}

/** Adds the rows of one frame. The frame may be sealed or a draft: only its own fields are read. */
export function projectFrame(
  rows: ProjectionRows,
  place: ProjectedPlace,
  frame: Record<string, unknown>,
): void {
  projectors[frame.kind as FrameKind]?.(rows, place, frame)
  const activity = activityOf(frame)
  if (activity)
    rows.activity.push({ ...placeColumns(place), run_id: place.runId, ...noActivity, ...activity })
  const searched = searchedTextOf(frame)
  if (!searched) return
  const { kind, text, tool, path } = searched
  rows.searched.push({
    ...placeColumns(place),
    kind,
    tool: tool === null ? null : storable(tool),
    path: path === null ? null : storable(path),
    words: indexedWords(text),
  })
}

export function searchable(text: string): string {
  return text.slice(0, SEARCHED_CHARACTERS).replaceAll('\u0000', '').toWellFormed().toLowerCase()
}

function projectTitle(rows: ProjectionRows, place: ProjectedPlace, fields: Record<string, unknown>): void {
  if (typeof fields.title !== 'string') return
  const title = storable(fields.title)
  rows.titles.push({ segment: place.segment, seq: place.seq, title, search_text: searchable(title) })
}

/** Postgres accepts neither NUL nor lone surrogates. */
function storable(value: unknown): string {
  return String(value).replaceAll('\u0000', '').toWellFormed()
}

function placeColumns({ segment, seq, conversationId, timestamp }: ProjectedPlace) {
  return { segment, seq, conversation_id: conversationId, created_at: timestamp }
}

function closing(
  place: ProjectedPlace,
  fields: Record<string, unknown>,
  status: SessionClosingRow['status'],
  checkpoint: unknown,
): SessionClosingRow {
  const { closed_at = place.timestamp } = fields
  return {
    ...placeColumns(place),
    // A restated closing keeps its original timestamp.
    created_at: String(closed_at),
    work_session: String(fields.closed_session),
    status,
    checkpoint_id: String(checkpoint),
    next_session: String(fields.new_session),
  }
}

function messageRow(
  place: ProjectedPlace,
  message: Pick<MessageRow, 'message_id' | 'role' | 'checkpoint_id'> & { content: string },
): MessageRow {
  return {
    segment: place.segment,
    seq: place.seq,
    message_id: message.message_id,
    role: message.role,
    run_id: place.runId,
    conversation_id: place.conversationId,
    checkpoint_id: message.checkpoint_id,
    created_at: place.timestamp,
    search_text: searchable(message.content),
  }
}
