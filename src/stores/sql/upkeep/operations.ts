import { read, write } from '../operation.ts'
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
import { findToken, listTokens, putToken, revokeToken } from './tokens.ts'
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

export const reads = {
  unreachable: read(unreachable, { isSlow: true }),
  unreferencedBlobs: read(unreferencedBlobs, { isSlow: true }),
  readCounter: read(readCounter),
  segmentsAfter: read(segmentsAfter),
  eventsAfter: read(eventsAfter, { isSlow: true }),
  books: read(books, { isSlow: true }),
  namedBlobs: read(namedBlobs, { isSlow: true }),
  blocksAfter: read(blocksAfter, { isSlow: true }),
  projections: read(projections, { isSlow: true }),
  findToken: read(findToken),
  listTokens: read(listTokens),
}

const alone = { keepsHeads: true, isAlone: true } as const

export const writes = {
  expire: write(expire, alone),
  collectSegment: write(collectSegment, alone),
  sweep: write(sweep, alone),
  makeStoreId: write(makeStoreId, { isAlone: true }),
  probe: write(probe, { keepsHeads: true }),
  dropProjections: write(dropProjections, { isAlone: true }),
  project: write(project, { isAlone: true }),
  putToken: write(putToken, alone),
  revokeToken: write(revokeToken, alone),
}
