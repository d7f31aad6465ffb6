import type { Frame } from '../protocol/frames.ts'

/** The conversation as a person sees it, derived from frames alone: identical on every device, live or years later. */
export interface Transcript {
  conversationId: string | null
  title: string | null
  /** The event it starts at: 1 for the whole line. A part of a line starts at a person's message. */
  from: number
  /** The last event it contains. */
  head: number
  entries: readonly Entry[]
}

/** The events of an entry: its first, and the last one that changed it. */
export interface Span {
  at: number
  upTo: number
}

export type Entry = MessageEntry | RunEntry | MarkEntry

export interface MessageEntry extends Span {
  type: 'message'
  messageId: string
  content: string
  checkpointId: string | null
  workSession: string | null
  activeFiles: readonly string[]
  attachments: readonly {
    name: string
    sha256: string
    bytes: number
    media_type?: string | undefined
  }[]
  timestamp: string
}

export type RunStatus =
  | 'queued'
  | 'in_progress'
  | 'completed'
  | 'failed'
  | 'incomplete'
  | 'refused'
  | 'cancelled'

export interface RunEntry extends Span {
  type: 'run'
  runId: string
  status: RunStatus
  reason: string | null
  /** When a failed request to the model is sent again; null unless the run waits for that. */
  retryAt: string | null
  agent: string | null
  items: readonly Item[]
  error: Frame<'error'>['error'] | null
  final: Frame<'final'>['final'] | null
  startedAt: string
  endedAt: string | null
}

export type Item = TextItem | ReasoningItem | ToolItem | OtherItem | MarkItem

interface ItemPlace {
  /** Identifies the response and its item: unique within the run. */
  key: string
  responseId: string | null
  outputIndex: number
  /** Every id that the provider gave this item; some providers rotate them. */
  itemIds: readonly string[]
  status: ItemStatus
  /** Values that came in chunks, by field. */
  chunks: Readonly<Record<string, ChunkedValue>>
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

export interface TextItem extends ItemPlace {
  type: 'text'
  role: string | null
  parts: readonly TextPart[]
}

export interface TextPart {
  contentIndex: number
  text: string
  refusal: string | null
  citations: readonly Frame<'message.citation'>['citation'][]
}

export interface ReasoningItem extends ItemPlace {
  type: 'reasoning'
  parts: readonly { summaryIndex: number; text: string }[]
}

/** The progress of a tool call. A card's phase only moves forward. */
export const toolPhases = ['arguments', 'called', 'output', 'failed'] as const
export type ToolPhase = (typeof toolPhases)[number]

export interface Approval {
  status: 'requested' | 'approved' | 'denied'
  reason: string | null
  by: string | null
  /** How the program would run, or ran; null for tools that start no program. */
  confinement: { sandbox: string | null; network: boolean; wants_network: boolean } | null
  grant: { network: boolean; outside: boolean } | null
  /** The rule that allowed it; null when a person did. */
  ruleId: string | null
}

export interface ToolItem extends ItemPlace {
  type: 'tool'
  toolCallId: string | null
  toolType: string
  name: string | null
  phase: ToolPhase
  /** The status as the provider or the tool reports it. */
  toolStatus: string | null
  argumentsText: string
  argumentsJson: unknown
  code: string | null
  /** The output; while a command runs, its output so far. */
  output: unknown
  /** True if the frame holds only a part of the output. */
  isOutputCut: boolean
  approval: Approval | null
  edits: readonly FileEdit[]
  details: Frame<'tool.status'>['tool'] | null
  startedAt: string
  endedAt: string | null
  /** Time spent waiting for a person, in ms. */
  waitedMs: number
  /** When it began to wait for a person; null while it doesn't. */
  waitingSince: string | null
}

export interface ChunkedValue {
  encoding: 'base64' | 'utf8'
  data: string
  pieces: number
  done: boolean
}

/** An item of a type that this version does not know; shown by its name. */
export interface OtherItem extends ItemPlace {
  type: 'other'
  itemType: string
}

export interface FileEdit {
  path: string
  change: 'added' | 'modified' | 'deleted'
  additions: number
  deletions: number
  diff: string | null
  /** The checkpoint with the previous file, if it had changed since the message's checkpoint. */
  previousCheckpoint: string | null
}

/** An event other than a message or an item: shown between entries, or inside a run. */
export type Mark =
  | { kind: 'checkpoint'; frame: Frame<'workspace.checkpoint'> }
  | { kind: 'edit'; edit: FileEdit }
  | { kind: 'restored'; frame: Frame<'workspace.restored'> }
  | { kind: 'approved'; frame: Frame<'session.approved'> }
  | { kind: 'reset'; frame: Frame<'session.reset'> }
  | { kind: 'memory'; frame: Frame<'memory.checkpoint'> }
  | { kind: 'imported'; frame: Frame<'import.session'> }
  | { kind: 'agent'; from: string | null; to: string }
  | { kind: 'forked'; parentConversationId: string; fromEventNumber: number }
  | { kind: 'cut'; after: number; messageId: string; by: string }
  | { kind: 'title'; title: string }
  | { kind: 'unknown'; frameKind: string }

export interface MarkEntry extends Span {
  type: 'mark'
  mark: Mark
  timestamp: string
}

export interface MarkItem {
  type: 'mark'
  key: string
  at: number
  mark: Mark
}

export function emptyTranscript(from = 1): Transcript {
  return { conversationId: null, title: null, from, head: from - 1, entries: [] }
}
