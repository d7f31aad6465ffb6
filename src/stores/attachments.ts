import type { AttachmentStore } from '../core/attachments.ts'
import type { BlobStore } from '../core/blobs.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { keepText, readSpilled } from './spill.ts'

export function createAttachments({ engine, blobs }: { engine: Engine; blobs: BlobStore }): AttachmentStore {
  return {
    keep: (text) => keepText(blobs, text),
    read: (sha256) => readSpilled(blobs, sha256),
    onLine: async (tenant, conversationId) =>
      accepted(await stored(engine.read('lineAttachments', { tenant, conversationId }), 'read')),
  }
}
