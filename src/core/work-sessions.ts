import type {
  Adopted,
  Approved,
  BlameView,
  CheckpointDetails,
  CheckpointList,
  Committed,
  DiffView,
  FileEditList,
  FileList,
  FileView,
  ResetDone,
  Restored,
  SessionView,
} from '../protocol/api/work.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { APPROVED_AGAIN } from '../protocol/frame-kinds.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { type ConversationId, parseCopyWorkspaceId } from '../protocol/ids.ts'
import type { Idempotency } from './ledger.ts'
import { cutText } from './limits.ts'
import type { Undoing } from './operations.ts'

/** The branch of the approved state. */
export const MAIN = 'main'

/**
 * A work session is the set of changes between two approvals.
 *
 *            approve ──► merged ─┐
 *   active ──┤                   ├─► the next session is active
 *            reset ───► abandoned┘
 */
export type SessionStatus = 'active' | 'merged' | 'abandoned'

/** The stored rows about a conversation's checkpoints and work sessions. */
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
  /** Where a fork starts: the last checkpoint and the last approved one on the line before it. */
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

/** The rows in the form that decisions need. */
export interface WorkState {
  workspaceId: string | null
  hasBegun: boolean
  /** Number of the last checkpoint. */
  lastNumber: number
  /** The active session, and its last checkpoint. */
  session: string
  tip: string | null
  /** The approved state, and when it was approved. */
  main: string | null
  mainAt: string
  lastApprovedAt: string | null
  sessions: WorkSession[]
  /** Branch → checkpoint: the refs that the conversation's repository must have. */
  heads: Record<string, string>
}

const FIRST = 'session_1'

export function workStateOf(rows: WorkRows): WorkState {
  const { inherited } = rows
  // Sorted by number: clocks go back, and those of two machines differ.
  // A deletion of messages may restate a closing; both are equivalent.
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
    // The closing that opened it may have been deleted and collected.
    const opened = closings.find((closing) => closing.nextSession === name)
    const closed = byName.get(name)
    // The first session starts where the conversation started, whatever was approved since.
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

/** `session_3` → 3. */
export function sessionNumber(session: string): number {
  return Number(session.replace('session_', ''))
}

const LABEL_CHARACTERS = 50

/** Commit messages (W1). */
export const labels = {
  initial: 'Initial checkpoint',
  beforeMessage: (content: string) =>
    `Before user message: ${cutText(content.replaceAll(/\s+/g, ' ').trim(), LABEL_CHARACTERS)}`,
  isOfMessage: (label: string) => label.startsWith('Before user message: '),
  /** The beginning of the message, without a word that was cut. */
  messageIn(label: string): string {
    const message = label.slice('Before user message: '.length)
    if (message.length < LABEL_CHARACTERS - 1) return message
    return `${message.replace(/ \S*$/, '')} …`
  },
  beforeRestore: 'Before restore',
  restoredTo: (id: string) => `Restored to ${id}`,
  beforeReset: 'Before reset',
  beforeApproval: 'Before approval',
  beforeHooks: 'Before commit hooks',
  beforeFork: 'Before fork',
  beforeAdoption: 'Before adoption',
  adopted: (title: string | null) =>
    title === null ? 'Adopted from a fork' : `Adopted from: ${cutText(title, LABEL_CHARACTERS)}`,
  afterCall: (title: string) => `After: ${cutText(title.replaceAll(/\s+/g, ' ').trim(), LABEL_CHARACTERS)}`,
  beforeCall: (title: string) => `Before: ${cutText(title.replaceAll(/\s+/g, ' ').trim(), LABEL_CHARACTERS)}`,
  /** Taken after a call whose outcome is unknown. */
  afterInterrupted: (title: string) =>
    `After interrupted: ${cutText(title.replaceAll(/\s+/g, ' ').trim(), LABEL_CHARACTERS)}`,
  isOfAdoption: (label: string) => label.startsWith('Adopted from'),
  isOfCall: (label: string) => label.startsWith('After: '),
  isOfInterrupted: (label: string) => label.startsWith('After interrupted: '),
  beforeEdit: (path: string) => `Before edit: ${cutText(path, LABEL_CHARACTERS)}`,
  /** For a checkpoint that is restated because the messages around it were deleted. */
  kept: 'Kept when messages were deleted',
  approvedAgain: APPROVED_AGAIN,
  isOfApproval: (label: string) => label.startsWith('Approved: '),
  approved: (message: string) => `Approved: ${message.replaceAll(/\s+/g, ' ').trim()}`,
} as const

export function workspaceNotHere(named: string | null, here: string): WaymarkError {
  if (named === null) {
    return new WaymarkError(
      'workspace_not_here',
      'This conversation has no files. Fork it or start a new one to work on the files of this project.',
    )
  }
  const copy = parseCopyWorkspaceId(named)
  if (copy?.workspaceId === here) {
    return new WaymarkError(
      'workspace_not_here',
      `The working copy of this conversation (workspaces/${copy.conversationId} in the data folder) no longer exists. ` +
        'Start a new conversation, or fork the one that this was forked from.',
    )
  }
  return new WaymarkError(
    'workspace_not_here',
    `The files of this conversation are in workspace ${named}, but this server has ${here}. ` +
      `If both are the same folder, run: waymark serve --workspace-id ${named}`,
  )
}

/** A restore, reset or approval in progress in a workspace; no run starts there until it has ended (W8). */
export interface WorkChange {
  id: string
  kind: 'restore' | 'reset' | 'approve' | 'adopt'
  tenant: string
  conversationId: ConversationId
  /** The caller who requested it. */
  by: string
  target: string | null
  paths: string[] | null
  /** A checkpoint of the files before the change, set before the first file is touched. */
  safety: FrameDraft<'workspace.checkpoint'> | null
  /** The files of another conversation that an adoption merges. */
  adopted?: {
    conversationId: ConversationId
    checkpointId: string
    title: string | null
    conflicts: string[]
  }
  /** Files left unchanged because another conversation changed them, with the reason. */
  spared?: { path: string; reason: string }[]
  /** True once the ledger has the safety checkpoint: from then on it is listed, whatever happens to the change. */
  isSafetyListed?: boolean
  /** True if it is finished after a kill: its answer lacks the files that were changed before. */
  isResumed?: boolean
  /** The conversation's own approved state before an approval. */
  approvedBefore?: string
  idempotency: Idempotency | null
  undoing?: Undoing | undefined
}

/** Stores checkpoints and work sessions. */
export interface WorkStore {
  /** The workspace that has the conversation's files; null when it has none. */
  workspaceOf(tenant: string, id: ConversationId): Promise<string | null>
  /** The workspaces of this workspace's working copies that conversations use. */
  copies(workspaceId: string): Promise<string[]>
  /** Those of these workspaces that a conversation still uses. */
  inUse(workspaceIds: readonly string[]): Promise<string[]>
  /** Those of these conversations that the store knows, including deleted ones. */
  knownAmong(ids: readonly string[]): Promise<string[]>
  /** Without `isCounted`, skips counting a session's checkpoints, which takes longer the more there are. */
  rows(tenant: string, id: ConversationId, how?: { isCounted: boolean }): Promise<WorkRows>
  /** The last approval in the workspace, by any conversation; null when there was none. */
  approvedIn(workspaceId: string): Promise<{ checkpointId: string; at: string } | null>
  /** The workspace's approvals, and the commits of approved files to this branch, newest first. */
  approvalsToCommit(
    workspaceId: string,
    branch: string | null,
  ): Promise<{
    items: { checkpointId: string; at: string }[]
    commits: { approved: string; commit: string }[]
  }>
  /** Records that everything up to this approval was committed to a branch of the user's repository. */
  noteCommit(commit: NewCommit): Promise<void>
  /** Edits and checkpoints of all conversations in the workspace since then. */
  doneSince(workspaceId: string, since: string): Promise<DoneSince>
  checkpoints(query: WorkQuery): Promise<CheckpointList>
  edits(query: WorkQuery): Promise<FileEditList>
  /** All checkpoints in the workspace, by any conversation, oldest first. */
  checkpointEvents(workspaceId: string): Promise<CheckpointEvent[]>
  /** All edits of these files in the workspace, oldest first. */
  editEvents(workspaceId: string, paths: readonly string[]): Promise<EditEvent[]>
  /** The last edits between these times that created files. */
  creations(workspaceId: string, since: string, until: string | null): Promise<EditEvent[]>
  editSources(edits: readonly EditEvent[]): Promise<EditSource[]>
  /** The files at an event of the line. */
  filesAt(tenant: string, id: ConversationId, at: number): Promise<FilesThen>
  /**
   * The conversation's checkpoint with this id or id prefix, including abandoned sessions and inherited checkpoints.
   */
  findCheckpoint(tenant: string, id: ConversationId, checkpointId: string): Promise<string>
  /** Conversations of this workspace that have checkpoints, except deleted ones. */
  conversations(workspaceId: string): Promise<{ tenant: string; id: ConversationId }[]>
  /** Every checkpoint that a line reaches or can be restored to, in all workspaces; null while that is unknown. */
  reachable(): Promise<string[] | null>
  /** Those of these conversations that have expired; unknown ids are not included. */
  expiredAmong(ids: readonly string[]): Promise<string[]>

  /** Holds the workspace or throws `workspace_busy` (W8). Returns the first answer for a repeated request. */
  begin(workspaceId: string, change: WorkChange): Promise<{ repeated: unknown } | null>
  /** Stores the safety checkpoint and appends its frame in one transaction: it is listed before a file is touched. */
  note(
    workspaceId: string,
    change: WorkChange & { safety: FrameDraft<'workspace.checkpoint'> },
  ): Promise<void>
  /** The change that has begun and not yet ended. */
  pending(workspaceId: string): Promise<WorkChange | null>
  /** Appends its frames and releases the workspace, in one transaction. False if that was already done. */
  finish(
    workspaceId: string,
    change: WorkChange,
    done: { frames: FrameDraft[]; answer: unknown },
  ): Promise<boolean>
  abandon(workspaceId: string, change: WorkChange): Promise<void>
  /** Ends a change that could neither finish nor be undone. Its safety checkpoint has the files to recover. */
  fail(workspaceId: string, change: WorkChange, reason: string): Promise<void>
  /** The last change that failed, until files are restored, reset or approved in the workspace. */
  failed(workspaceId: string): Promise<FailedChange | null>
}

export interface DoneSince {
  /** Files edited by tools. */
  edits: { conversationId: string; path: string }[]
  /**
   * Checkpoints of all conversations, oldest first; `isBefore` marks those taken before a conversation changes files.
   */
  checkpoints: { conversationId: string; checkpointId: string; isBefore: boolean }[]
  names: { conversationId: string; tenant: string; title: string | null }[]
}

export interface FailedChange {
  kind: WorkChange['kind']
  conversationId: ConversationId
  /** The checkpoint of the files before the change. */
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

/** Checkpoints and work sessions for runs and for people. Refusals throw a WaymarkError. */
export interface WorkSessions {
  /** Takes the first checkpoint of a conversation if it has none. Never rejects: after a failure, its first message tries again. */
  start(tenant: string, id: ConversationId): Promise<void>
  /** Takes a checkpoint before a message. The caller appends the returned frames. */
  beforeMessage(command: {
    tenant: string
    conversationId: ConversationId
    content: string
  }): Promise<MessageCheckpoint>
  /** Replaces or deletes a file for a tool of a run; first checkpoints a file that no checkpoint has (W10). */
  editFile(command: EditFileCommand): Promise<EditFileOutcome>
  /**
   * Takes a checkpoint during a run and lists what has changed since the conversation's last one; null when nothing has. The
   * caller appends the frame, and stores it before the next call.
   */
  capture(command: {
    tenant: string
    conversationId: ConversationId
    label: string
  }): Promise<Captured | null>
  /** Updates the conversation's repository after its frames are stored. */
  writeRepository(tenant: string, id: ConversationId): Promise<void>
  /** Schedules maintenance after a run has ended in this workspace. */
  afterRun(workspaceId: string | null): void

  session(tenant: string, id: ConversationId): Promise<SessionView>
  approve(command: WorkCommand & { message: string | null }): Promise<Approved>
  /** Makes an earlier approval the approved state again; no file changes. */
  /** The checkpoint of the state that counts as approved. */
  approvedState(tenant: string, id: ConversationId): Promise<string>
  /** Those of these paths that are folders now, with files that are not among the paths. */
  occupied(tenant: string, id: ConversationId, paths: readonly string[]): Promise<string[]>
  approveAgain(command: WorkCommand & { approved: string }): Promise<Approved>
  /** The files that differ between two checkpoints. */
  changedBetween(tenant: string, id: ConversationId, from: string, to: string): Promise<string[]>
  reset(command: ResetCommand): Promise<ResetDone>
  restore(command: RestoreCommand): Promise<Restored>
  /** Merges the files of another working copy into this conversation's (W11). */
  adopt(command: AdoptCommand): Promise<Adopted>
  checkpoints(query: WorkQuery): Promise<CheckpointList>
  checkpoint(tenant: string, id: ConversationId, checkpointId: string): Promise<CheckpointDetails>
  edits(query: WorkQuery): Promise<FileEditList>
  diff(query: DiffQuery): Promise<DiffView>
  /** The files at an event, or the current files, and what has changed since. */
  files(query: FilesQuery): Promise<FileList>
  file(query: FileQuery): Promise<FileView>
  /** Commits the files approved since the last commit to the user's repository. */
  commit(command: CommitApprovedCommand): Promise<Committed>
  /** Who wrote each line of a file. */
  blame(query: BlameQuery): Promise<BlameView>
  /**
   * Compares the current files of two conversations, or their last checkpoints if they share a workspace; null if the
   * files are not on this server.
   */
  compare(query: CompareQuery): Promise<DiffView | null>

  /** True if this process has the workspace. */
  isHere(workspaceId: string): boolean
  /** All workspaces of this process. */
  workspaceIds(): string[]
  /** Creates a working copy with a checkpoint's files, for a conversation that is about to be created. */
  makeCopy(command: CopyCommand): Promise<MadeCopy>
}

/**
 * An index into the sources that wrote a file; `outside` if no call of a conversation did, `unknown` if it can't be told whether
 * one did.
 */
export type BlameAuthor = number | 'outside' | 'unknown'

export interface BlameEdit {
  path: string
  change: string
  diff: string | null
  /** The checkpoint with the previous file, if it had changed since the last checkpoint. */
  previousCheckpoint: string | null
  author: BlameAuthor
}

/** What happened in a workspace, in order: checkpoints, with the author of what only they show, and edits. */
export type BlameStep = { checkpoint: string; author: BlameAuthor } | { edit: BlameEdit }

export interface BlamedFile {
  /** Null if the file is gone, binary or too large. */
  text: string | null
  /** The author of each line. */
  authors: BlameAuthor[]
}

/** A checkpoint or an edit in a workspace, as stored. */
export interface WorkEvent {
  conversationId: ConversationId
  tenant: string
  segment: number
  eventNumber: number
  runId: string | null
  at: string
}

export interface CheckpointEvent extends WorkEvent {
  checkpointId: string
  label: string
}

export interface EditEvent extends WorkEvent {
  toolCallId: string | null
  path: string
  change: string
  diff: string | null
  previousCheckpoint: string | null
}

/** The message and the call of an edit. */
export interface EditSource {
  messageId: string | null
  message: string | null
  tool: string | null
  /** The hosted agent; null for Waymark's own. */
  agent: string | null
}

/** A commit to the user's repository. */
export interface NewCommit {
  tenant: string
  conversationId: ConversationId
  by: string
  workspaceId: string
  approved: string
  commit: string
  branch: string
}

export interface CommitApprovedCommand {
  tenant: string
  by: string
  conversationId: ConversationId
  title: string | null
  /** Null proposes one. */
  message: string | null
  /** A new branch; null for the current one. */
  branch: string | null
  dryRun: boolean
  /** True for a dry run as if the current files were approved. */
  withCurrent: boolean
  /** True to run commit hooks. */
  runHooks: boolean
}

export interface BlameQuery {
  tenant: string
  conversationId: ConversationId
  path: string
}

export interface CompareQuery {
  tenant: string
  from: ConversationId
  to: ConversationId
  /** Include line-by-line differences. */
  isDetailed: boolean
}

export interface CopyCommand {
  tenant: string
  /** The conversation whose files are copied. */
  from: ConversationId
  /** Null copies the current files. */
  checkpointId: string | null
  conversationId: ConversationId
}

export interface MadeCopy {
  workspaceId: string
  /** Keeps the copy, once its conversation exists. */
  keep(): Promise<void>
  /** Removes the copy, if the conversation could not be created. */
  drop(): Promise<void>
}

export interface MessageCheckpoint {
  checkpointId: string
  workSession: string
  frames: FrameDraft<'workspace.checkpoint'>[]
}

export interface Captured {
  frame: FrameDraft<'workspace.checkpoint'>
  changes: CapturedChange[]
}

export interface CapturedChange {
  path: string
  change: 'added' | 'modified' | 'deleted'
  additions: number
  deletions: number
  diff: string | null
  /** When the system noted the change, in ms; null for deleted files. */
  changedAt: number | null
}

export interface EditFileCommand {
  tenant: string
  conversationId: ConversationId
  path: string
  /** Null deletes the file. */
  bytes: Uint8Array | null
  /** SHA-256 of the file as the tool read it; a mismatch refuses the edit. */
  expected?: string | undefined
  /**
   * Stores these frames and verifies that the run is still held; throws otherwise. Called with the workspace locked,
   * right before the file is touched (R4).
   */
  confirm(frames: FrameDraft<'workspace.checkpoint'>[]): Promise<void>
}

export type EditFileOutcome =
  | {
      isDone: true
      /** The previous bytes; null when there was no file or it is too large to show. */
      before: Uint8Array | null
      wasThere: boolean
      /** The checkpoint with the previous file, if no earlier one had it. */
      previousCheckpoint: string | null
      rescued: { path: string; file: string }[]
    }
  | { isDone: false; why: 'changed' | 'not_a_file' | 'missing' }

export interface WorkCommand {
  tenant: string
  conversationId: ConversationId
  by: string
  idempotency?: Idempotency | undefined
  undoing?: Undoing | undefined
}

export interface ResetCommand extends WorkCommand {
  dryRun: boolean
  /** Also resets files that other conversations have changed since. */
  includeOthers: boolean
}

export interface RestoreCommand extends WorkCommand {
  checkpointId: string
  paths: string[] | null
  dryRun: boolean
}

export interface AdoptCommand extends WorkCommand {
  /** The conversation whose working copy is merged. */
  from: ConversationId
  title: string | null
  /** Takes the other working copy's file if both have changed it; otherwise the file stays. */
  isOtherPreferred: boolean
  dryRun: boolean
}

/** A checkpoint's files, and the edits by tools after it. Without a checkpoint: the current files. */
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
  /** Null means the current files. */
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
  /** Default: the last approved state. */
  from: string | null
  /** Default: the current files. */
  to: string | null
  path: string | null
}
