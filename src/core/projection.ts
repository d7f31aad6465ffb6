import type { FrameKind } from '../protocol/frames.ts'

/**
 * Projections are read models that can be rebuilt from the ledger. Each row stands at the event it comes from, so rows
 * follow their segment through forks, cuts and undone cuts without any rule of their own.
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

/** Which agent state goes with which message. */
export interface AgentCheckpointRow {
  segment: number
  seq: number
  checkpoint_id: string
  message_id: string
}

/** Where a tool call's outcome stands. */
export interface ToolOutputRow {
  segment: number
  seq: number
  tool_call_id: string
}

export const projectionTables = [
  'messages',
  'titles',
  'branches',
  'agent_checkpoints',
  'tool_outputs',
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
  },
  final: (rows, place, fields) => {
    const final = fields.final as { response_text?: string }
    // An answer has no id of its own: there is one a run, so the run's id names it.
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
    const tool_call_id = String(fields.tool_call_id).replaceAll('\u0000', '').toWellFormed()
    rows.tool_outputs.push({ segment, seq, tool_call_id })
  },
}

export function isProjected(kind: string): boolean {
  return Object.hasOwn(projectors, kind)
}

export function emptyRows(): ProjectionRows {
  return { messages: [], titles: [], branches: [], agent_checkpoints: [], tool_outputs: [] }
}

/** Adds the rows that one frame stands for. The frame may be whole or a draft: only its own fields are looked at. */
export function projectFrame(
  rows: ProjectionRows,
  place: ProjectedPlace,
  frame: Record<string, unknown>,
): void {
  projectors[frame.kind as FrameKind]?.(rows, place, frame)
}

export function searchable(text: string): string {
  return text.slice(0, SEARCHED_CHARACTERS).replaceAll('\u0000', '').toWellFormed().toLowerCase()
}

function projectTitle(rows: ProjectionRows, place: ProjectedPlace, fields: Record<string, unknown>): void {
  if (typeof fields.title !== 'string') return
  const title = fields.title.replaceAll('\u0000', '').toWellFormed()
  rows.titles.push({ segment: place.segment, seq: place.seq, title, search_text: searchable(title) })
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
