import {
  deleteAgentThread,
  listAgentStates,
  putAgentState,
  putAgentWrites,
  putEntries,
  readAgentState,
  readEntries,
  runPast,
  stateHistory,
} from './agent-states.ts'
import { append } from './append.ts'
import { lineAttachments } from './attachments.ts'
import { audit, readAudit } from './audit.ts'
import { changeConversation, removeConversation, undoRemoveConversation } from './change-conversation.ts'
import {
  conversationsWithWork,
  copiesInUse,
  expiredAmong,
  findCheckpoint,
  knownAmong,
  listCheckpoints,
  listEdits,
  reachableCheckpoints,
  workRows,
  workspaceOf,
  workspacesInUse,
} from './checkpoints.ts'
import {
  collectSegment,
  expire,
  makeStoreId,
  probe,
  readCounter,
  sweep,
  unreachable,
  unreferencedBlobs,
} from './collect.ts'
import { createConversation } from './create-conversation.ts'
import type { Dialect } from './dialect.ts'
import {
  exportBlocks,
  exportFamily,
  exportNames,
  exportResponses,
  exportThread,
  segmentNumber,
} from './export-family.ts'
import { family } from './family.ts'
import { filesAt } from './files-at.ts'
import { cut, deletable, fork, undeletable, undoCut } from './fork-and-cut.ts'
import { answeredBefore } from './idempotency.ts'
import {
  abortImport,
  beginImport,
  finishImport,
  importEvents,
  importRows,
  knownFamily,
} from './import-family.ts'
import {
  indexedChunks,
  indexedFiles,
  putIndexed,
  removeIndexed,
  searchVectors,
  searchWords,
  setVectors,
  unembedded,
} from './index.ts'
import { claimable, claimRun, releaseLeases, renewLeases } from './leases.ts'
import { listMemories } from './memories.ts'
import { branches, line, messages } from './messages.ts'
import { page } from './page.ts'
import { checkpointAt } from './place.ts'
import {
  abandonRun,
  answerAsk,
  ask,
  cancelRun,
  editQueued,
  enqueue,
  queueDepths,
  readQuestion,
  readQueue,
  removeQueued,
  stopAll,
  stopCurrent,
  wishes,
} from './queue.ts'
import { listConversations, ownsConversation, readConversation } from './read-conversations.ts'
import { livingConversations, renewHead } from './renew-head.ts'
import { knownBlocks } from './request-blocks.ts'
import { beginResponse, endResponse, listResponses, readResponse } from './responses.ts'
import { findRule, listRules, removeRule } from './rules.ts'
import { openRun, takeRun } from './runs.ts'
import type { Script } from './script.ts'
import { findToken, listTokens, putToken, revokeToken } from './tokens.ts'
import { findToolOutput } from './tool-outputs.ts'
import {
  blocksAfter,
  books,
  dropProjections,
  eventsAfter,
  namedBlobs,
  project,
  projections,
  segmentsAfter,
} from './upkeep.ts'
import { approvedIn, doneSince } from './work-authors.ts'
import {
  abandonChange,
  beginChange,
  failChange,
  failedChange,
  finishChange,
  noteChange,
  pendingChange,
} from './work-changes.ts'

/** Every operation on the store, by name: what crosses to SQLite's threads is a name and its argument. */

// oxlint-disable-next-line typescript/no-explicit-any -- each operation has its own argument; callers see its type
type AnyOperation = (dialect: Dialect, argument: any) => Script<unknown>

export const reads = {
  page,
  line,
  messages,
  branches,
  family,
  checkpointAt,
  filesAt,
  deletable,
  undeletable,
  unreachable,
  unreferencedBlobs,
  readCounter,
  readAudit,
  readConversation,
  ownsConversation,
  listConversations,
  readQueue,
  queueDepths,
  readQuestion,
  findRule,
  listRules,
  wishes,
  claimable,
  readAgentState,
  readEntries,
  listAgentStates,
  stateHistory,
  runPast,
  findToolOutput,
  listResponses,
  readResponse,
  knownBlocks,
  listMemories,
  lineAttachments,
  indexedFiles,
  indexedChunks,
  searchWords,
  searchVectors,
  unembedded,
  workRows,
  approvedIn,
  doneSince,
  workspaceOf,
  workspacesInUse,
  copiesInUse,
  knownAmong,
  answeredBefore,
  listCheckpoints,
  listEdits,
  findCheckpoint,
  conversationsWithWork,
  reachableCheckpoints,
  expiredAmong,
  pendingChange,
  failedChange,
  findToken,
  listTokens,
  segmentsAfter,
  eventsAfter,
  books,
  namedBlobs,
  blocksAfter,
  livingConversations,
  projections,
  exportFamily,
  exportNames,
  exportResponses,
  exportBlocks,
  exportThread,
  knownFamily,
  segmentNumber,
} satisfies Record<string, AnyOperation>

export const writes = {
  append,
  createConversation,
  fork,
  cut,
  undoCut,
  changeConversation,
  removeConversation,
  undoRemoveConversation,
  openRun,
  takeRun,
  enqueue,
  removeQueued,
  editQueued,
  cancelRun,
  stopCurrent,
  stopAll,
  ask,
  answerAsk,
  removeRule,
  claimRun,
  renewLeases,
  releaseLeases,
  abandonRun,
  putAgentState,
  putAgentWrites,
  putEntries,
  deleteAgentThread,
  beginResponse,
  endResponse,
  putIndexed,
  removeIndexed,
  setVectors,
  beginChange,
  noteChange,
  finishChange,
  abandonChange,
  failChange,
  putToken,
  revokeToken,
  expire,
  collectSegment,
  makeStoreId,
  probe,
  renewHead,
  sweep,
  audit,
  dropProjections,
  project,
  abortImport,
  beginImport,
  importEvents,
  importRows,
  finishImport,
} satisfies Record<string, AnyOperation>

/** Reads that may grow with the whole store: they get a lane of their own, so that no page waits for them, and a budget. */
const slowReads: ReadonlySet<string> = new Set<ReadName>([
  'family',
  'unreachable',
  'unreferencedBlobs',
  'searchWords',
  'searchVectors',
  'eventsAfter',
  'books',
  'namedBlobs',
  'blocksAfter',
  'projections',
  'reachableCheckpoints',
  'exportFamily',
  'exportNames',
  'exportResponses',
  'exportBlocks',
  'exportThread',
  'knownFamily',
])

export function isSlow({ name, argument }: Call): boolean {
  return (
    slowReads.has(name) || (name === 'listConversations' && (argument as { search: unknown }).search !== null)
  )
}

/** How long a person's search may take. Work of the server's own, such as collecting, takes as long as it takes. */
export const READ_BUDGET_MS = 10_000
const budgeted: ReadonlySet<string> = new Set<ReadName>(['listConversations', 'family'])

export function hasBudget({ name }: Call): boolean {
  return budgeted.has(name)
}

/** Says so in the message of an error that crosses threads. */
export const OVER_BUDGET = 'the read took longer than its budget'

/** Writes that never move a head, so the writer keeps its cached heads across them. */
export const keepsHeads: ReadonlySet<string> = new Set<WriteName>([
  'append',
  'openRun',
  'takeRun',
  'enqueue',
  'removeQueued',
  'editQueued',
  'cancelRun',
  'stopCurrent',
  'stopAll',
  'ask',
  'answerAsk',
  'removeRule',
  'claimRun',
  'renewLeases',
  'releaseLeases',
  'abandonRun',
  'putAgentState',
  'putAgentWrites',
  'putEntries',
  'deleteAgentThread',
  'beginResponse',
  'endResponse',
  'putIndexed',
  'removeIndexed',
  'setVectors',
  'beginChange',
  'abandonChange',
  'failChange',
  'expire',
  'collectSegment',
  'probe',
  'sweep',
  'audit',
  'putToken',
  'revokeToken',
  'abortImport',
  'beginImport',
  'importEvents',
  'importRows',
  'finishImport',
])

type Operations = { [name: string]: AnyOperation }
type Argument<T extends AnyOperation> = Parameters<T>[1]
type Result<T extends AnyOperation> = ReturnType<T> extends Script<infer R> ? R : never

export type ReadName = keyof typeof reads
export type ReadArgument<K extends ReadName> = Argument<(typeof reads)[K]>
export type ReadResult<K extends ReadName> = Result<(typeof reads)[K]>

export type WriteName = keyof typeof writes
export type WriteArgument<K extends WriteName> = Argument<(typeof writes)[K]>
export type WriteResult<K extends WriteName> = Result<(typeof writes)[K]>

export interface Call {
  name: string
  argument: unknown
}

export function scriptOf(operations: Operations, dialect: Dialect, call: Call): Script<unknown> {
  const operation = operations[call.name]
  if (!operation) throw new Error(`no such operation: ${call.name}`)
  return operation(dialect, call.argument)
}
