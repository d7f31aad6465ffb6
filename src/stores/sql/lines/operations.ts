import { read, write } from '../operation.ts'
import { type AppendOutcome, type AppendRequest, append } from './append.ts'
import { lineAttachments } from './attachments.ts'
import { family } from './family.ts'
import { assertCanUndelete, deleteMessages, findDeletion, fork, undeleteMessages } from './fork-and-cut.ts'
import { branches, line, messages } from './messages.ts'
import { page } from './page.ts'
import { checkpointAt } from './place.ts'
import { livingConversations, renewHead } from './renew-head.ts'
import { findToolOutput } from './tool-outputs.ts'

export const reads = {
  page: read(page),
  line: read(line),
  messages: read(messages),
  branches: read(branches),
  family: read(family, { isSlow: true, hasBudget: true }),
  checkpointAt: read(checkpointAt),
  findDeletion: read(findDeletion),
  assertCanUndelete: read(assertCanUndelete),
  lineAttachments: read(lineAttachments),
  findToolOutput: read(findToolOutput),
  livingConversations: read(livingConversations),
}

export const writes = {
  // Callers send one request each; neighbours in a group become one call.
  append: write<readonly AppendRequest[], AppendOutcome[]>(append, { keepsHeads: true }),
  fork: write(fork, { changesLine: ({ newConversationId }) => newConversationId }),
  deleteMessages: write(deleteMessages, {
    changesLine: ({ conversationId }) => conversationId,
    changesQueue: ({ conversationId }) => conversationId,
  }),
  undeleteMessages: write(undeleteMessages, {
    changesLine: ({ conversationId }) => conversationId,
    changesQueue: ({ conversationId }) => conversationId,
  }),
  renewHead: write(renewHead, { isAlone: true }),
}
