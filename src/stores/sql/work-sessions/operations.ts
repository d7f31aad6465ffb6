import { read, write } from '../operation.ts'
import { approvalsToCommit, approvedIn, noteCommit } from './approvals.ts'
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
import { filesAt } from './files-at.ts'
import { doneSince } from './work-authors.ts'
import {
  abandonChange,
  beginChange,
  failChange,
  failedChange,
  finishChange,
  noteChange,
  pendingChange,
} from './work-changes.ts'
import { checkpointEvents, creations, editEvents, editSources } from './work-events.ts'

export const reads = {
  workRows: read(workRows),
  approvedIn: read(approvedIn),
  approvalsToCommit: read(approvalsToCommit),
  doneSince: read(doneSince),
  workspaceOf: read(workspaceOf),
  workspacesInUse: read(workspacesInUse),
  copiesInUse: read(copiesInUse),
  knownAmong: read(knownAmong),
  listCheckpoints: read(listCheckpoints),
  listEdits: read(listEdits),
  findCheckpoint: read(findCheckpoint),
  filesAt: read(filesAt),
  checkpointEvents: read(checkpointEvents, { isSlow: true }),
  editEvents: read(editEvents, { isSlow: true }),
  creations: read(creations, { isSlow: true }),
  editSources: read(editSources, { isSlow: true }),
  conversationsWithWork: read(conversationsWithWork),
  reachableCheckpoints: read(reachableCheckpoints, { isSlow: true }),
  expiredAmong: read(expiredAmong),
  pendingChange: read(pendingChange),
  failedChange: read(failedChange),
}

/** Runs that wait for the workspace are woken through the conversation's queue. */
const onConversation = {
  changesLine: ({ change }: { change: { conversationId: string } }) => change.conversationId,
  changesQueue: ({ change }: { change: { conversationId: string } }) => change.conversationId,
}

export const writes = {
  noteCommit: write(noteCommit, { keepsHeads: true }),
  beginChange: write(beginChange, { keepsHeads: true }),
  noteChange: write(noteChange, onConversation),
  finishChange: write(finishChange, { ...onConversation, isRepeatable: true }),
  abandonChange: write(abandonChange, { ...onConversation, keepsHeads: true, isRepeatable: true }),
  failChange: write(failChange, { ...onConversation, keepsHeads: true, isRepeatable: true }),
}
