import type { Fence } from '../../../core/agent-states.ts'
import { read, write } from '../operation.ts'
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
import {
  indexedChunks,
  indexedFiles,
  putIndexed,
  removeIndexed,
  searchVectors,
  searchWords,
  setVectors,
  unembedded,
} from './chunk-index.ts'
import { listMemories } from './memories.ts'
import { knownBlocks } from './request-blocks.ts'
import { beginResponse, endResponse, lineUsage, listResponses, readResponse } from './responses.ts'

export const reads = {
  readAgentState: read(readAgentState),
  readEntries: read(readEntries),
  listAgentStates: read(listAgentStates),
  stateHistory: read(stateHistory),
  runPast: read(runPast),
  listResponses: read(listResponses),
  lineUsage: read(lineUsage, { isSlow: true }),
  readResponse: read(readResponse),
  knownBlocks: read(knownBlocks),
  listMemories: read(listMemories),
  indexedFiles: read(indexedFiles),
  indexedChunks: read(indexedChunks),
  searchWords: read(searchWords, { isSlow: true }),
  searchVectors: read(searchVectors, { isSlow: true }),
  unembedded: read(unembedded),
}

const fenced = {
  keepsHeads: true,
  isRepeatable: true,
  locks: ({ fence }: { fence: Fence | null }) => fence?.conversationId ?? null,
} as const
const alone = { keepsHeads: true, isAlone: true } as const

export const writes = {
  putAgentState: write(putAgentState, fenced),
  putAgentWrites: write(putAgentWrites, fenced),
  putEntries: write(putEntries, fenced),
  deleteAgentThread: write(deleteAgentThread, { keepsHeads: true }),
  beginResponse: write(beginResponse, {
    keepsHeads: true,
    isRepeatable: true,
    locks: ({ conversationId }) => conversationId,
  }),
  endResponse: write(endResponse, { keepsHeads: true, isRepeatable: true }),
  putIndexed: write(putIndexed, alone),
  removeIndexed: write(removeIndexed, { ...alone, isRepeatable: true }),
  setVectors: write(setVectors, { ...alone, isRepeatable: true }),
}
