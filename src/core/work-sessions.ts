import type {
  Approved,
  CheckpointDetails,
  CheckpointList,
  DiffView,
  FileEditList,
  FileList,
  FileView,
  ResetDone,
  Restored,
  SessionView,
} from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { type ConversationId, copyOf } from '../protocol/ids.ts'
import type { Idempotency } from './ledger.ts'
import { cutText } from './limits.ts'

/** The branch of what was approved. */
export const MAIN = 'main'

/**
 * A work session is what has changed between two approvals.
 *
 *            approve ──► merged ─┐
 *   active ──┤                   ├─► the next one is active
 *            reset ───► abandoned┘
 */
export type SessionStatus = 'active' | 'merged' | 'abandoned'

/** What the ledger says about a conversation's files, as it is stored. */
export interface WorkRows {
  workspaceId: string | null
  /** The last checkpoint on each branch. */
  tips: {
    workSession: string
    checkpointId: string
    count: number
    number: number
    firstAt: string
    firstId: string
  }[]
  closings: {
    workSession: string
    status: Exclude<SessionStatus, 'active'>
    checkpointId: string
    nextSession: string
    at: string
  }[]
  /** What a fork begins with: the last checkpoint and the last approved one on the line before it. */
  inherited: { tip: string | null; main: string | null }
}

export interface WorkSession {
  name: string
  ref: string
  status: SessionStatus
  createdAt: string | null
  closedAt: string | null
  approvedCommit: string | null
  checkpointCount: number
}

/** The same, as decisions need it. */
export interface WorkState {
  workspaceId: string | null
  hasBegun: boolean
  /** Of the last checkpoint. */
  lastNumber: number
  /** The active session, and its last checkpoint. */
  session: string
  tip: string | null
  /** The approved state, and when it was approved. */
  main: string | null
  mainAt: string
  lastApprovedAt: string | null
  sessions: WorkSession[]
  /** Branch → checkpoint: what the conversation's repository must say. */
  heads: Record<string, string>
}

const FIRST = 'session_1'

export function workStateOf(rows: WorkRows): WorkState {
  const { inherited } = rows
  // By their numbers: clocks go back, and two machines' differ.
  // Of one that is told of twice, since messages were deleted, either will do.
  const byName = new Map(rows.closings.map((closing) => [closing.workSession, closing]))
  const closings = [...byName.values()].toSorted(
    (a, b) => sessionNumber(a.workSession) - sessionNumber(b.workSession),
  )
  const tips = new Map(rows.tips.map((tip) => [tip.workSession, tip]))
  const main = tips.get(MAIN)?.checkpointId ?? inherited.main
  const last = closings.at(-1)
  const names = last ? [...closings.map((closing) => closing.workSession), last.nextSession] : [FIRST]
  const heads: Record<string, string> = main === null ? {} : { [MAIN]: main }
  const sessions = names.map((name): WorkSession => {
    // What came before may have been deleted, and collected.
    const opened = closings.find((closing) => closing.nextSession === name)
    const closed = byName.get(name)
    // The first session begins where the conversation began, whatever has been approved since.
    const base = opened?.checkpointId ?? inherited.tip ?? tips.get(MAIN)?.firstId ?? main
    const head = tips.get(name)?.checkpointId ?? base
    if (head !== null) heads[name] = head
    return {
      name,
      ref: `refs/heads/${name}`,
      status: closed?.status ?? 'active',
      createdAt: opened?.at ?? tips.get(MAIN)?.firstAt ?? tips.get(name)?.firstAt ?? null,
      closedAt: closed?.at ?? null,
      approvedCommit: closed?.status === 'merged' ? closed.checkpointId : null,
      checkpointCount: tips.get(name)?.count ?? 0,
    }
  })
  const session = names.at(-1) ?? FIRST
  return {
    workspaceId: rows.workspaceId,
    hasBegun: rows.tips.length > 0,
    lastNumber: Math.max(0, ...rows.tips.map((tip) => tip.number)),
    session,
    tip: heads[session] ?? null,
    main,
    mainAt: closings.findLast((closing) => closing.status === 'merged')?.at ?? tips.get(MAIN)?.firstAt ?? '',
    lastApprovedAt: closings.findLast((closing) => closing.status === 'merged')?.at ?? null,
    sessions,
    heads,
  }
}

export function nextSession(session: string): string {
  return `session_${sessionNumber(session) + 1}`
}

/** Of `session_3`: 3. */
export function sessionNumber(session: string): number {
  return Number(session.replace('session_', ''))
}

const LABEL_CHARACTERS = 50

/** What commits say (W1). */
export const labels = {
  initial: 'Initial checkpoint',
  beforeMessage: (content: string) =>
    `Before user message: ${cutText(content.replaceAll(/\s+/g, ' ').trim(), LABEL_CHARACTERS)}`,
  isOfMessage: (label: string) => label.startsWith('Before user message: '),
  beforeRestore: 'Before restore',
  restoredTo: (id: string) => `Restored to ${id}`,
  beforeReset: 'Before reset',
  beforeApproval: 'Before approval',
  beforeFork: 'Before fork',
  beforeEdit: (path: string) => `Before edit: ${cutText(path, LABEL_CHARACTERS)}`,
  /** Of a checkpoint that is told of again because the words around it were deleted. */
  kept: 'Kept when messages were deleted',
  approved: (message: string) => `Approved: ${message.replaceAll(/\s+/g, ' ').trim()}`,
} as const

export function workspaceNotHere(named: string | null, here: string): WaymarkError {
  if (named === null) {
    return new WaymarkError(
      'workspace_not_here',
      'This conversation is about no files. Fork it, or start another, to work on the files of this project.',
    )
  }
  const copy = copyOf(named)
  if (copy?.workspaceId === here) {
    return new WaymarkError(
      'workspace_not_here',
      `The working copy of this conversation, workspaces/${copy.conversationId} in the data folder, is not there any more. Fork the conversation to go on.`,
    )
  }
  return new WaymarkError(
    'workspace_not_here',
    `The files of this conversation are in the workspace ${named}, and this server has ${here}. ` +
      `If that is the same folder under another name: waymark serve --workspace-id ${named}`,
  )
}

/** A restore, reset or approval that is under way in a workspace: no run begins there until it has ended (W8). */
export interface WorkChange {
  id: string
  kind: 'restore' | 'reset' | 'approve'
  tenant: string
  conversationId: ConversationId
  /** Who asked for it. */
  by: string
  target: string | null
  paths: string[] | null
  /** What was there, as a checkpoint: set before the first file is touched. */
  safety: FrameDraft<'workspace.checkpoint'> | null
  /** Files that are left as they are, and why: another conversation changed them. */
  spared?: { path: string; reason: string }[]
  /** Whether the ledger has the safety checkpoint: since then it is listed, whatever becomes of the change. */
  isSafetyListed?: boolean
  idempotency: Idempotency | null
}

/** What the store keeps of checkpoints and work sessions. */
export interface WorkStore {
  /** Where the conversation's files are; null when it is about none. */
  workspaceOf(tenant: string, id: ConversationId): Promise<string | null>
  /** The workspaces of working copies of this one, as far as conversations work in them. */
  copies(workspaceId: string): Promise<string[]>
  /** Which of these workspaces a conversation still has. */
  inUse(workspaceIds: readonly string[]): Promise<string[]>
  /** Which of these conversations the store knows, deleted ones too. */
  knownAmong(ids: readonly string[]): Promise<string[]>
  /** Without `isCounted` the checkpoints of a session are not counted, which takes longer the more there are. */
  rows(tenant: string, id: ConversationId, how?: { isCounted: boolean }): Promise<WorkRows>
  /** The last approval in the workspace, by any conversation; null when there was none. */
  approvedIn(workspaceId: string): Promise<{ checkpointId: string; at: string } | null>
  /** What conversations have done in the workspace since then, the last first. */
  doneSince(workspaceId: string, since: string): Promise<DoneSince>
  checkpoints(query: WorkQuery): Promise<CheckpointList>
  edits(query: WorkQuery): Promise<FileEditList>
  /** What the files were like at an event of the line. */
  filesAt(tenant: string, id: ConversationId, at: number): Promise<FilesThen>
  /** The conversation's checkpoint with this id, or beginning of an id, of abandoned sessions and inherited ones too. */
  findCheckpoint(tenant: string, id: ConversationId, checkpointId: string): Promise<string>
  /** Conversations of this workspace that have checkpoints, deleted ones not. */
  conversations(workspaceId: string): Promise<{ tenant: string; id: ConversationId }[]>
  /** Every checkpoint that a line can be led to, of any workspace; null while that is not known. */
  reachable(): Promise<string[] | null>
  /** Which of these were deleted for good; not those that were never here. */
  expiredAmong(ids: readonly string[]): Promise<string[]>

  /** Holds the workspace, or refuses: `workspace_busy` (W8). Of a request that was answered before, the answer. */
  begin(workspaceId: string, change: WorkChange): Promise<{ repeated: unknown } | null>
  /** Notes the safety checkpoint and appends its frame, in one transaction: it is listed before a file is touched. */
  note(
    workspaceId: string,
    change: WorkChange & { safety: FrameDraft<'workspace.checkpoint'> },
  ): Promise<void>
  /** The change that was begun and has not ended. */
  pending(workspaceId: string): Promise<WorkChange | null>
  /** Appends its frames and lets go of the workspace, in one transaction. False when that had been done. */
  finish(
    workspaceId: string,
    change: WorkChange,
    done: { frames: FrameDraft[]; answer: unknown },
  ): Promise<boolean>
  abandon(workspaceId: string, change: WorkChange): Promise<void>
  /** Ends a change that could be neither finished nor taken back. Its safety checkpoint is what a person needs now. */
  fail(workspaceId: string, change: WorkChange, reason: string): Promise<void>
  /** The change that ended like this, until files are restored, reset or approved in the workspace. */
  failed(workspaceId: string): Promise<FailedChange | null>
}

export interface DoneSince {
  /** What tools edited. */
  edits: { conversationId: string; path: string }[]
  /** Checkpoints of all conversations, oldest first; `isBefore` marks those that a conversation takes before it changes files. */
  checkpoints: { conversationId: string; checkpointId: string; isBefore: boolean }[]
  names: { conversationId: string; tenant: string; title: string | null }[]
}

export interface FailedChange {
  kind: WorkChange['kind']
  conversationId: ConversationId
  /** Holds the files as they were before it. */
  safetyCheckpoint: string | null
  reason: string
  at: string
}

export interface WorkQuery {
  tenant: string
  conversationId: ConversationId
  limit: number
  cursor: string | null
  path?: string | null
}

/** Checkpoints and work sessions, as runs and people use them. Methods that refuse throw a WaymarkError. */
export interface WorkSessions {
  /** The first checkpoint of a conversation; changes nothing when it has one. */
  start(tenant: string, id: ConversationId): Promise<void>
  /** What is there before a message, kept; the frames that say so are the caller's to append. */
  beforeMessage(command: {
    tenant: string
    conversationId: ConversationId
    content: string
  }): Promise<MessageCheckpoint | null>
  /** Replaces or deletes a file for a tool of a run; a file that no checkpoint has is kept first (W10). */
  editFile(command: EditFileCommand): Promise<EditFileOutcome>
  /** The frames are stored: the conversation's repository follows. */
  follow(tenant: string, id: ConversationId): Promise<void>
  /** A run has ended in this workspace: a good time to look after things. */
  afterRun(workspaceId: string | null): void

  session(tenant: string, id: ConversationId): Promise<SessionView>
  approve(command: WorkCommand & { message: string | null }): Promise<Approved>
  reset(command: ResetCommand): Promise<ResetDone>
  restore(command: RestoreCommand): Promise<Restored>
  checkpoints(query: WorkQuery): Promise<CheckpointList>
  checkpoint(tenant: string, id: ConversationId, checkpointId: string): Promise<CheckpointDetails>
  edits(query: WorkQuery): Promise<FileEditList>
  diff(query: DiffQuery): Promise<DiffView>
  /** The files as they were at an event, or as they are now, and what has changed since. */
  files(query: FilesQuery): Promise<FileList>
  file(query: FileQuery): Promise<FileView>
  /** How the files of two conversations differ, as they are now where each has its own; null where they are not here. */
  compare(query: CompareQuery): Promise<DiffView | null>

  /** Whether this process has the workspace. */
  holds(workspaceId: string): boolean
  /** All that it has. */
  workspaceIds(): string[]
  /** A working copy of its own for a conversation that is about to be made, with a checkpoint's files. */
  makeCopy(command: CopyCommand): Promise<MadeCopy>
}

export interface CompareQuery {
  tenant: string
  from: ConversationId
  to: ConversationId
  /** With the differences line by line. */
  isDetailed: boolean
}

export interface CopyCommand {
  tenant: string
  /** Whose files are copied. */
  from: ConversationId
  /** Null: as they are now. */
  checkpointId: string | null
  conversationId: ConversationId
}

export interface MadeCopy {
  workspaceId: string
  /** The conversation is there: the copy is its own from now on. */
  keep(): Promise<void>
  /** It did not come to it. */
  drop(): Promise<void>
}

export interface MessageCheckpoint {
  checkpointId: string
  workSession: string
  frames: FrameDraft<'workspace.checkpoint'>[]
}

export interface EditFileCommand {
  tenant: string
  conversationId: ConversationId
  path: string
  /** Null deletes the file. */
  bytes: Uint8Array | null
  /** SHA-256 of the file as the tool read it: refused when it differs. */
  expected?: string | undefined
  /**
   * Stores these frames and makes sure that the run is still held; throws otherwise. Called while the workspace is locked,
   * right before the file is touched (R4).
   */
  confirm(frames: FrameDraft<'workspace.checkpoint'>[]): Promise<void>
}

export type EditFileOutcome =
  | {
      isDone: true
      /** The bytes that were there; null when there were none, or too many to be shown. */
      before: Uint8Array | null
      wasThere: boolean
      /** The checkpoint with the file as it was, when no earlier one had it. */
      previousCheckpoint: string | null
      rescued: { path: string; file: string }[]
    }
  | { isDone: false; why: 'changed' | 'not_a_file' | 'missing' }

export interface WorkCommand {
  tenant: string
  conversationId: ConversationId
  by: string
  idempotency?: Idempotency | undefined
}

export interface ResetCommand extends WorkCommand {
  dryRun: boolean
  /** Also what other conversations have changed since. */
  includeOthers: boolean
}

export interface RestoreCommand extends WorkCommand {
  checkpointId: string
  paths: string[] | null
  dryRun: boolean
}

/** A checkpoint's files, and what tools had done to them by then. Without a checkpoint: the files as they are now. */
export interface FilesThen {
  checkpointId: string | null
  edits: FileEditThen[]
}

export interface FileEditThen {
  path: string
  change: string
  diff: string | null
}

export interface FilesQuery {
  tenant: string
  conversationId: ConversationId
  /** Null: as they are now. */
  at: number | null
  search: string
  limit: number
}

export interface FileQuery {
  tenant: string
  conversationId: ConversationId
  at: number | null
  path: string
}

export interface DiffQuery {
  tenant: string
  conversationId: ConversationId
  /** Default: what was approved last. */
  from: string | null
  /** Default: what is there now. */
  to: string | null
  path: string | null
}
