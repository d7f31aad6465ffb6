import { read, write } from '../operation.ts'
import { audit, readAudit } from './audit.ts'
import { changeConversation, removeConversation, undoRemoveConversation } from './change-conversation.ts'
import { createConversation } from './create-conversation.ts'
import { answeredBefore } from './idempotency.ts'
import { findOperation, listOperations, markOperation, nextOperation } from './operation-log.ts'
import { listConversations, ownsConversation, presenceOf, readConversation } from './read-conversations.ts'
import { readStats } from './read-stats.ts'
import { searchLedger } from './search-ledger.ts'

export const reads = {
  readConversation: read(readConversation),
  presenceOf: read(presenceOf),
  ownsConversation: read(ownsConversation),
  listConversations: read(listConversations, { isSlow: ({ search }) => search !== null, hasBudget: true }),
  searchLedger: read(searchLedger, { isSlow: true, hasBudget: true }),
  answeredBefore: read(answeredBefore),
  readAudit: read(readAudit),
  readStats: read(readStats, { isSlow: true }),
  listOperations: read(listOperations),
  findOperation: read(findOperation),
  nextOperation: read(nextOperation),
}

export const writes = {
  createConversation: write(createConversation, { changesLine: ({ conversationId }) => conversationId }),
  changeConversation: write(changeConversation, { changesLine: ({ id }) => id }),
  removeConversation: write(removeConversation, {
    changesLine: ({ id }) => id,
    changesQueue: ({ id }) => id,
  }),
  undoRemoveConversation: write(undoRemoveConversation, { changesLine: ({ id }) => id }),
  markOperation: write(markOperation, { keepsHeads: true, isAlone: true, isRepeatable: true }),
  audit: write(audit, { keepsHeads: true, isAlone: true }),
}
