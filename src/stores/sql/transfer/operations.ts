import { read, write } from '../operation.ts'
import {
  exportBlocks,
  exportFamily,
  exportNames,
  exportResponses,
  exportThread,
  segmentNumber,
} from './export-family.ts'
import {
  abortImport,
  beginImport,
  finishImport,
  importEvents,
  importRows,
  knownFamily,
} from './import-family.ts'
import { importSession } from './import-session.ts'

export const reads = {
  exportFamily: read(exportFamily, { isSlow: true }),
  exportNames: read(exportNames, { isSlow: true }),
  exportResponses: read(exportResponses, { isSlow: true }),
  exportBlocks: read(exportBlocks, { isSlow: true }),
  exportThread: read(exportThread, { isSlow: true }),
  knownFamily: read(knownFamily, { isSlow: true }),
  segmentNumber: read(segmentNumber),
}

const alone = { keepsHeads: true, isAlone: true } as const

export const writes = {
  abortImport: write(abortImport, alone),
  beginImport: write(beginImport, alone),
  importEvents: write(importEvents, alone),
  importRows: write(importRows, alone),
  finishImport: write(finishImport, alone),
  importSession: write(importSession, {
    isAlone: true,
    changesLine: ({ conversationId }) => conversationId,
  }),
}
