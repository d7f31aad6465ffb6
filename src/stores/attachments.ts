import type { AttachmentStore } from '../core/attachments.ts'
import type { BlobStore } from '../core/blobs.ts'
import type { Database } from './database.ts'
import { keepText, readSpilled } from './spill.ts'

export function createAttachments({
  database,
  blobs,
}: {
  database: Database
  blobs: BlobStore
}): AttachmentStore {
  return {
    keep: (text) => keepText(blobs, text),
    read: (sha256) => readSpilled(blobs, sha256),
    onLine: async (tenant, conversationId) =>
      await database.read('lineAttachments', { tenant, conversationId }),
  }
}
